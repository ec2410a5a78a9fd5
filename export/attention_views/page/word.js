const MAX_PARTNERS = 3;

/** Writes the largest weights of a word as text. */
function describeWord(maps, layer, heads, word) {
  byId("word-hint").hidden = Boolean(word);
  byId("word-table").hidden = !word;
  if (!word) {
    byId("word-title").textContent = "One word";
    return;
  }
  const looks = word.side === "from";
  byId("word-title").textContent = titleOf(maps, layer, heads, word);
  byId("word-column").textContent = looks ? "Looks at" : "Is looked at by";
  const rows = heads.map((head) => {
    const row = element("tr");
    const name = element("th", { scope: "row" });
    name.append(
      element("span", { class: "swatch", ...headStyle(head) }),
      `${head + 1}`,
    );
    row.append(name, partners(maps, maps.wordWeights(layer, head, word), word));
    return row;
  });
  document.querySelector("#word-table tbody").replaceChildren(...rows);
}

function titleOf(maps, layer, heads, word) {
  const name = `\u201c\u2068${maps[word.side][word.index]}\u2069\u201d`;
  if (!heads.length) return `${name}: no head is chosen`;
  const others = maps[otherSide(word.side)];
  const means = others.map((_, other) =>
    word.side === "from"
      ? maps.mean(layer, heads, word.index, other)
      : maps.mean(layer, heads, other, word.index),
  );
  const best = strongest(means)[0];
  const partner = `\u201c\u2068${others[best]}\u2069\u201d`;
  const verb = word.side === "from" ? "looks most at" : "is seen most by";
  return `${name} ${verb} ${partner}: ${percent(means[best])}`;
}

function partners(maps, weights, word) {
  const others = maps[otherSide(word.side)];
  const cell = element("td");
  const row = element("div");
  for (const other of strongest(weights).slice(0, MAX_PARTNERS)) {
    const partner = element("div", { class: "partner" });
    partner.append(
      element("bdi", {}, others[other]),
      element("span", {}, percent(weights[other])),
    );
    row.append(partner);
  }
  cell.append(row);
  return cell;
}

function strongest(weights) {
  const order = weights.map((_, place) => place);
  return order.sort((a, b) => weights[b] - weights[a]);
}
