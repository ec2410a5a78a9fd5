// Lines of smaller weights would only make the picture grey.
const MIN_WEIGHT = 0.02;
const MIN_WEIGHT_OF_WORD = 0.01;
const WIDTH = 100;
// Number of different line strengths.
const LEVELS = 100;

/**
 * Draws the lines of one word, or of all words if word is null.
 *
 * Lines of a head that are equally strong are one path: thousands of paths
 * would be slow.
 */
function drawLines(svg, maps, layer, heads, word) {
  const rows = Math.max(maps.from.length, maps.to.length);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${rows}`);
  svg.parentNode.style.setProperty("--rows", rows);
  const minWeight = word ? MIN_WEIGHT_OF_WORD : MIN_WEIGHT;
  const lines = document.createDocumentFragment();
  heads.forEach((head, index) => {
    const group = svgElement("g", { ...headStyle(head), "data-head": head });
    const offset = headOffset(index, heads.length);
    const curves = new Map();
    for (const [from, to, weight] of pairs(maps, layer, head, word)) {
      if (weight < minWeight) continue;
      const level = Math.round(weight * LEVELS);
      const others = curves.get(level) ?? "";
      const [start, end] = [from + 0.5 + offset, to + 0.5 + offset];
      curves.set(level, others + curve(start, end));
    }
    for (const [level, d] of curves) {
      const attributes = stroke(level / LEVELS, Boolean(word));
      group.append(svgElement("path", { d, ...attributes }));
    }
    lines.append(group);
  });
  svg.replaceChildren(lines);
}

function* pairs(maps, layer, head, word) {
  for (let from = 0; from < maps.from.length; from++) {
    if (word?.side === "from" && word.index !== from) continue;
    for (let to = 0; to < maps.to.length; to++) {
      if (word?.side === "to" && word.index !== to) continue;
      yield [from, to, maps.weight(layer, head, from, to)];
    }
  }
}

/** Lines of different heads must not hide one another. */
function headOffset(index, count) {
  return (index - (count - 1) / 2) * Math.min(0.14, 0.7 / count);
}

function curve(start, end) {
  const bend = WIDTH * 0.4;
  const y = start.toFixed(3);
  const to = end.toFixed(3);
  return `M0 ${y}C${bend} ${y} ${WIDTH - bend} ${to} ${WIDTH} ${to}`;
}

function stroke(weight, isSingleWord) {
  return {
    "stroke-opacity": (isSingleWord ? shade(weight) : weight).toFixed(3),
    "stroke-width": (1 + (isSingleWord ? 3 : 1) * weight).toFixed(2),
  };
}

/** Draws sample lines of some weights. */
function drawScale(parent) {
  for (const weight of [0.05, 0.25, 0.5, 1]) {
    const svg = svgElement("svg", { viewBox: "0 0 10 2" });
    svg.setAttribute("preserveAspectRatio", "none");
    svg.append(svgElement("path", { d: "M0 1H10", ...stroke(weight, true) }));
    parent.append(svg, `${100 * weight} %`);
  }
}
