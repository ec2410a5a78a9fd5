const KINDS = {
  encoder: {
    name: "Encoder self-attention",
    from: "Source word",
    to: "looks at, in the source",
    steps: "In the encoder every word may look at every word.",
  },
  decoder: {
    name: "Decoder self-attention",
    from: "Word being written",
    to: "looks at, written before",
    steps:
      "In the decoder a row is the step that writes the word; it sees the " +
      "beginning, <s>, and what was written before.",
  },
  cross: {
    name: "Cross-attention",
    from: "Word being written",
    to: "looks at, in the source",
    steps: "In cross-attention a row is the step that writes the word.",
  },
};

const data = JSON.parse(byId("data").textContent);
const maps = await unpackMaps(data);

// Kind, layer, heads and unit; the selected `word` and the `pointed` word under
// the pointer, each {side, index} or null.
const state = { ...data.view, pointed: null };
let geometry = null;

function shownMaps() {
  return maps[state.unit][state.kind];
}

function drawWord() {
  const word = state.pointed ?? state.word;
  const shown = [shownMaps(), state.layer, state.heads, word];
  drawLines(byId("lines"), ...shown);
  markWords(...shown, state.word);
  describeWord(...shown);
  markInMatrix(byId("matrix"), geometry, word);
  byId("cell").textContent = "";
}

function draw() {
  const kind = KINDS[state.kind];
  const count = state.heads.length;
  const names = state.heads.map((head) => head + 1).join(", ");
  const heads = count === data.heads ? `all ${count} heads` : `heads ${names}`;
  byId("lines-title").textContent = `${kind.name}, layer ${state.layer + 1}`;
  byId("matrix-title").textContent =
    count > 1 ? `Mean of ${heads}` : `Head ${names || "\u2013"}`;
  byId("from-title").textContent = kind.from;
  byId("to-title").textContent = kind.to;
  byId("steps").textContent = kind.steps;
  for (const name of ["kind", "layer", "unit"]) {
    checkChoice(byId(`${name}s`), state[name]);
  }
  showFirst(byId("layers"), data.layers[state.kind]);
  drawHeads(byId("heads"), shownMaps(), state.layer, state.heads);
  geometry = drawMatrix(
    byId("matrix"),
    shownMaps(),
    state.layer,
    state.heads,
  );
  drawWord();
}

function drawTokens() {
  for (const side of ["from", "to"]) {
    addWords(byId(side), shownMaps()[side], { point, leave, keep });
  }
  draw();
}

function point(word) {
  state.pointed = word;
  drawWord();
}

function leave() {
  state.pointed = null;
  drawWord();
}

function keep(word) {
  const { side, index } = state.word ?? {};
  const again = side === word.side && index === word.index;
  state.word = again ? null : word;
  drawWord();
}

function show(changes) {
  const before = shownMaps();
  Object.assign(state, changes);
  state.layer = Math.min(state.layer, data.layers[state.kind] - 1);
  if (shownMaps() === before) {
    draw();
    return;
  }
  // The index stands for another word in other columns.
  if (!("word" in changes)) state.word = null;
  state.pointed = null;
  drawTokens();
}

function toggle(head) {
  const others = state.heads.filter((each) => each !== head);
  const heads = state.heads.includes(head) ? others : [...others, head];
  show({ heads: heads.sort((a, b) => a - b) });
}

function pointAtCell(event) {
  const cell = cellAt(byId("matrix"), geometry, event);
  const was = state.pointed;
  if (!cell) {
    if (was) leave();
    return;
  }
  if (was?.side !== "from" || was.index !== cell.from) {
    point({ side: "from", index: cell.from });
  }
  const { from, to } = shownMaps();
  const weight = shownMaps().mean(state.layer, state.heads, cell.from, cell.to);
  byId("cell").textContent =
    `\u2068${from[cell.from]}\u2069 \u2192 \u2068${to[cell.to]}\u2069: ` +
    percent(weight);
}

function start() {
  const count = data.heads;
  const all = Array.from({ length: count }, (_, head) => head);
  byId("about").textContent = data.about;
  byId("source").textContent = data.source;
  byId("translation").textContent = data.translation;
  byId("translation-term").textContent = data.translation_term;
  byId("note").textContent = data.note;
  byId("note").hidden = !data.note;
  byId("views").hidden = !data.views.length;
  for (const { name, view } of data.views) {
    addButton(byId("views"), name, () => show(view));
  }
  const kinds = Object.entries(KINDS).map(([kind, { name }]) => [kind, name]);
  addChoices(byId("kinds"), kinds, (kind) => show({ kind }));
  const most = Math.max(...Object.values(data.layers));
  const layers = Array.from({ length: most }, (_, i) => [i, `${i + 1}`]);
  addChoices(byId("layers"), layers, (layer) => show({ layer }));
  const units = [
    ["words", "Words"],
    ["pieces", "Pieces"],
  ];
  addChoices(byId("units"), units, (unit) => show({ unit }));
  addHeads(byId("heads"), count, toggle, (head) => show({ heads: [head] }));
  addButton(byId("heads"), "All", () => show({ heads: all }));
  addButton(byId("heads"), "None", () => show({ heads: [] }));
  drawScale(byId("scale"));
  drawShades(byId("shades"));

  for (const side of ["from", "to"]) {
    byId(side).addEventListener("pointerleave", leave);
  }
  byId("matrix").addEventListener("pointermove", pointAtCell);
  byId("matrix").addEventListener("pointerleave", leave);
  document.addEventListener("keydown", (event) => {
    if (moveAmongWords(event)) event.preventDefault();
    if (event.key === "Escape") show({ word: null, pointed: null });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  drawTokens();
}

start();
