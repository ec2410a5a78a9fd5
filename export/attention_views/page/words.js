/** Fills a column with its words; calls on what is done with one. */
function addWords(list, tokens, on) {
  const side = list.id;
  list.replaceChildren(
    ...tokens.map((token, index) => {
      const button = element(
        "button",
        {
          type: "button",
          class: "word",
          dir: "auto",
          title: token,
          // One stop for Tab in a column; arrow keys go on from there.
          tabindex: index ? -1 : 0,
        },
        token,
      );
      const word = { side, index };
      button.addEventListener("pointerenter", () => on.point(word));
      button.addEventListener("focus", () => on.point(word));
      button.addEventListener("blur", () => on.leave());
      button.addEventListener("click", () => on.keep(word));
      const item = element("li");
      item.append(button);
      return item;
    }),
  );
}

/** Moves the focus among the words; returns whether the key was for it. */
function moveAmongWords(event) {
  const button = event.target.closest(".word");
  if (!button || event.altKey || event.ctrlKey || event.metaKey) return false;
  const list = button.closest("ol");
  const words = [...list.querySelectorAll(".word")];
  const index = words.indexOf(button);
  const last = words.length - 1;
  const places = {
    ArrowDown: [list, index + 1],
    ArrowUp: [list, index - 1],
    Home: [list, 0],
    End: [list, last],
    ArrowLeft: [byId("from"), index],
    ArrowRight: [byId("to"), index],
  };
  if (!(event.key in places)) return false;
  const [column, wanted] = places[event.key];
  const row = [...column.querySelectorAll(".word")];
  const next = row[Math.max(0, Math.min(wanted, row.length - 1))];
  for (const each of row) each.tabIndex = each === next ? 0 : -1;
  next.focus();
  return true;
}

/** Marks a word, and shades the others by how strongly they are tied. */
function markWords(maps, layer, heads, word, kept) {
  for (const side of ["from", "to"]) {
    const list = byId(side);
    list.setAttribute("data-color", lookOfHeads(heads));
    list.querySelectorAll(".word").forEach((button, index) => {
      const is = (each) => each?.side === side && each.index === index;
      button.classList.toggle("shown", is(word));
      button.classList.toggle("kept", is(kept));
      button.setAttribute("aria-pressed", is(kept));
      const tied = word && word.side !== side;
      const [from, to] =
        side === "to" ? [word?.index, index] : [index, word?.index];
      const weight = tied ? maps.mean(layer, heads, from, to) : 0;
      button.style.setProperty("--weight", weight.toFixed(3));
    });
  }
}
