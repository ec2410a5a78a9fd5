/** Fills a column with words; handlers are {point, leave, keep}. */
function addWords(list, tokens, handlers) {
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
          // Tab stops once in a column; arrow keys move within it.
          tabindex: index ? -1 : 0,
        },
        token,
      );
      const word = { side, index };
      button.addEventListener("pointerenter", () => handlers.point(word));
      button.addEventListener("focus", () => handlers.point(word));
      button.addEventListener("blur", () => handlers.leave());
      button.addEventListener("click", () => handlers.keep(word));
      const item = element("li");
      item.append(button);
      return item;
    }),
  );
}

/** Moves the focus among the words; returns whether the key did so. */
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

/** Marks a word, and shades the other column by its weights. */
function markWords(maps, layer, heads, word, kept) {
  for (const side of ["from", "to"]) {
    const list = byId(side);
    list.setAttribute("data-color", colorOfHeads(heads));
    list.querySelectorAll(".word").forEach((button, index) => {
      const isHere = (each) => each?.side === side && each.index === index;
      button.classList.toggle("shown", isHere(word));
      button.classList.toggle("kept", isHere(kept));
      button.setAttribute("aria-pressed", isHere(kept));
      const isOther = word && word.side !== side;
      const [from, to] =
        side === "to" ? [word?.index, index] : [index, word?.index];
      const weight = isOther ? maps.mean(layer, heads, from, to) : 0;
      button.style.setProperty("--weight", weight.toFixed(3));
    });
  }
}
