// With all words at once, weaker lines would only grey the picture.
const LEAST_OF_ALL = 0.02;
const LEAST_OF_WORD = 0.01;
const WIDTH = 100;
// Strengths that are told apart.
const GRADES = 100;

/**
 * Draws the lines of one word, or of all when word is null.
 *
 * Lines of a head that are equally strong are one path: thousands of paths
 * would be slow.
 */
function drawLines(svg, maps, layer, heads, word) {
  const rows = Math.max(maps.from.length, maps.to.length);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${rows}`);
  svg.parentNode.style.setProperty("--rows", rows);
  const least = word ? LEAST_OF_WORD : LEAST_OF_ALL;
  const lines = document.createDocumentFragment();
  heads.forEach((head, lane) => {
    const group = svgElement("g", { ...lookOf(head), "data-head": head });
    const shift = laneShift(lane, heads.length);
    const curves = new Map();
    for (const [from, to, weight] of pairs(maps, layer, head, word)) {
      if (weight < least) continue;
      const grade = Math.round(weight * GRADES);
      const others = curves.get(grade) ?? "";
      curves.set(grade, others + curve(from + 0.5 + shift, to + 0.5 + shift));
    }
    for (const [grade, d] of curves) {
      const look = stroke(grade / GRADES, Boolean(word));
      group.append(svgElement("path", { d, ...look }));
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

/** Heads run beside each other, so that none hides another. */
function laneShift(lane, lanes) {
  return (lane - (lanes - 1) / 2) * Math.min(0.14, 0.7 / lanes);
}

function curve(start, end) {
  const bend = WIDTH * 0.4;
  const y = start.toFixed(3);
  const to = end.toFixed(3);
  return `M0 ${y}C${bend} ${y} ${WIDTH - bend} ${to} ${WIDTH} ${to}`;
}

function stroke(weight, alone) {
  return {
    "stroke-opacity": (alone ? shade(weight) : weight).toFixed(3),
    "stroke-width": (alone ? 1 + 3 * weight : 1 + weight).toFixed(2),
  };
}

/** Shows how strong a line of some weights is. */
function drawScale(place) {
  for (const weight of [0.05, 0.25, 0.5, 1]) {
    const svg = svgElement("svg", { viewBox: "0 0 10 2" });
    svg.setAttribute("preserveAspectRatio", "none");
    svg.append(svgElement("path", { d: "M0 1H10", ...stroke(weight, true) }));
    place.append(svg, `${100 * weight} %`);
  }
}
