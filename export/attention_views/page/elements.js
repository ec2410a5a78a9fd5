const COLORS = 8;

function byId(id) {
  return document.getElementById(id);
}

function element(name, attributes = {}, text = "") {
  return setAttributes(document.createElement(name), attributes, text);
}

function svgElement(name, attributes = {}, text = "") {
  const svg = "http://www.w3.org/2000/svg";
  return setAttributes(document.createElementNS(svg, name), attributes, text);
}

function setAttributes(node, attributes, text) {
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  // Never as markup, because tokens may be hostile.
  if (text) node.textContent = text;
  return node;
}

/** Returns the color and the dashes of a head; dashes differ beyond eight. */
function headStyle(head) {
  return {
    "data-color": head % COLORS,
    "data-dash": Math.floor(head / COLORS) % 4,
  };
}

/** Returns the color for the mean of heads. */
function colorOfHeads(heads) {
  return heads.length === 1 ? heads[0] % COLORS : "mean";
}

/** Returns the opacity of a weight; its root keeps small ones visible. */
function shade(weight) {
  return Math.sqrt(weight);
}

function percent(weight) {
  const hundredths = 100 * weight;
  return `${hundredths.toFixed(hundredths < 10 ? 1 : 0)} %`;
}
