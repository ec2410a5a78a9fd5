const COLORS = 8;

function byId(id) {
  return document.getElementById(id);
}

function element(name, attributes = {}, text = "") {
  return filled(document.createElement(name), attributes, text);
}

function svgElement(name, attributes = {}, text = "") {
  const svg = "http://www.w3.org/2000/svg";
  return filled(document.createElementNS(svg, name), attributes, text);
}

function filled(made, attributes, text) {
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  // Never markup: tokens come from anywhere.
  if (text) made.textContent = text;
  return made;
}

/** A head is known by its color, and past eight by its dashes as well. */
function lookOf(head) {
  return {
    "data-color": head % COLORS,
    "data-dash": Math.floor(head / COLORS) % 4,
  };
}

/** What several heads together are drawn in. */
function lookOfHeads(heads) {
  return heads.length === 1 ? heads[0] % COLORS : "mean";
}

/** How opaque a weight is: its root, so that small ones are seen as well. */
function shade(weight) {
  return Math.sqrt(weight);
}

function percent(weight) {
  const hundredths = 100 * weight;
  return `${hundredths.toFixed(hundredths < 10 ? 1 : 0)} %`;
}
