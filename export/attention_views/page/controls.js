/** Fills a fieldset with radio buttons; calls onChoice with a value. */
function addChoices(fieldset, choices, onChoice) {
  for (const [value, name] of choices) {
    const label = element("label", { class: "choice" });
    const input = element("input", {
      type: "radio",
      name: fieldset.id,
      value,
      autocomplete: "off",
    });
    input.addEventListener("change", () => onChoice(value));
    label.append(input, element("span", {}, name));
    fieldset.append(label);
  }
}

function checkChoice(fieldset, value) {
  for (const input of fieldset.querySelectorAll("input")) {
    input.checked = input.value === String(value);
  }
}

/** Shows only the first choices. */
function showFirst(fieldset, count) {
  fieldset.querySelectorAll(".choice").forEach((label, number) => {
    label.hidden = number >= count;
  });
}

function addButton(fieldset, name, onClick) {
  const button = element("button", { type: "button", class: "plain" }, name);
  button.addEventListener("click", onClick);
  fieldset.append(button);
}

/** Adds a button for each head, with a small picture of its weights. */
function addHeads(fieldset, count, onToggle, onAlone) {
  for (let head = 0; head < count; head++) {
    const button = element("button", {
      type: "button",
      class: "head",
      "aria-label": `Head ${head + 1}`,
      title: `Head ${head + 1}; with Shift alone`,
      ...headStyle(head),
    });
    button.append(element("canvas"), element("span", {}, `${head + 1}`));
    button.addEventListener("click", (event) =>
      event.shiftKey ? onAlone(head) : onToggle(head),
    );
    fieldset.append(button);
  }
}

function drawHeads(fieldset, maps, layer, heads) {
  fieldset.querySelectorAll(".head").forEach((button, head) => {
    button.setAttribute("aria-pressed", heads.includes(head));
    drawSmall(button.querySelector("canvas"), maps, layer, head);
  });
}

function drawSmall(canvas, maps, layer, head) {
  canvas.width = maps.to.length;
  canvas.height = maps.from.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const hex = getComputedStyle(canvas).getPropertyValue("--head").trim();
  const color = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  for (let from = 0; from < canvas.height; from++) {
    for (let to = 0; to < canvas.width; to++) {
      const alpha = 255 * shade(maps.weight(layer, head, from, to));
      image.data.set([...color, alpha], 4 * (from * canvas.width + to));
    }
  }
  context.putImageData(image, 0, 0);
}
