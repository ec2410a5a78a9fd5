const MAX_LABEL_LENGTH = 14;

/** Draws the mean of the heads; returns the geometry for `cellAt`. */
function drawMatrix(svg, maps, layer, heads) {
  const rows = maps.from.length;
  const columns = maps.to.length;
  const size = Math.max(9, Math.min(28, 430 / Math.max(rows, columns)));
  const left = labelWidth(maps.from, size);
  const top = labelWidth(maps.to, size);
  const width = left + columns * size + top * 0.65;
  const height = top + rows * size + 2;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  // Narrower panels scroll.
  svg.style.minWidth = `${7 * columns}px`;
  svg.setAttribute("data-color", colorOfHeads(heads));

  const geometry = { left, top, size, rows, columns };
  svg.replaceChildren(
    cells(maps, layer, heads, geometry),
    labels(maps, geometry),
    svgElement("rect", {
      class: "frame",
      x: left,
      y: top,
      width: columns * size,
      height: rows * size,
    }),
    svgElement("rect", { class: "band", visibility: "hidden" }),
  );
  return geometry;
}

function cells(maps, layer, heads, { left, top, size, rows, columns }) {
  // Cells of one shade are one path, for speed.
  const squares = new Map();
  for (let from = 0; from < rows; from++) {
    for (let to = 0; to < columns; to++) {
      const weight = maps.mean(layer, heads, from, to);
      const level = Math.round(shade(weight) * LEVELS);
      const [x, y] = [left + to * size, top + from * size];
      const square = `M${x} ${y}h${size}v${size}h${-size}z`;
      squares.set(level, (squares.get(level) ?? "") + square);
    }
  }
  const group = svgElement("g");
  for (const [level, d] of squares) {
    const attributes = { class: "cell", "fill-opacity": level / LEVELS };
    if (level) group.append(svgElement("path", { d, ...attributes }));
  }
  return group;
}

function labels(maps, { left, top, size }) {
  const group = svgElement("g", { "font-size": fontSize(size) });
  maps.from.forEach((token, row) => {
    const y = top + (row + 0.5) * size;
    const place = { x: left - 5, y, "text-anchor": "end" };
    const centred = { ...place, "dominant-baseline": "central" };
    group.append(svgElement("text", centred, label(token)));
  });
  maps.to.forEach((token, column) => {
    const x = left + (column + 0.5) * size;
    const turned = `translate(${x} ${top - 5}) rotate(-55)`;
    group.append(svgElement("text", { transform: turned }, label(token)));
  });
  return group;
}

/** Draws sample cells of some weights. */
function drawShades(parent) {
  for (const weight of [0.01, 0.1, 0.25, 0.5, 1]) {
    const svg = svgElement("svg", { viewBox: "0 0 1 1" });
    const filling = { width: 1, height: 1, "fill-opacity": shade(weight) };
    svg.append(svgElement("rect", filling));
    parent.append(svg, `${100 * weight} %`);
  }
}

/** Marks the row or the column of a word. */
function markInMatrix(svg, { left, top, size, rows, columns }, word) {
  const band = svg.querySelector(".band");
  band.setAttribute("visibility", word ? "visible" : "hidden");
  if (!word) return;
  const isRow = word.side === "from";
  const place = {
    x: isRow ? left : left + word.index * size,
    y: isRow ? top + word.index * size : top,
    width: isRow ? columns * size : size,
    height: isRow ? size : rows * size,
  };
  setAttributes(band, place, "");
}

/** Returns the row and the column under the pointer, or null. */
function cellAt(svg, { left, top, size, rows, columns }, event) {
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  const to = Math.floor(((event.clientX - box.left) * scale - left) / size);
  const from = Math.floor(((event.clientY - box.top) * scale - top) / size);
  const inside = from >= 0 && from < rows && to >= 0 && to < columns;
  return inside ? { from, to } : null;
}

function fontSize(size) {
  return Math.min(12, Math.max(8, 0.8 * size));
}

function labelWidth(tokens, size) {
  const longest = Math.max(...tokens.map((token) => [...token].length));
  return 12 + Math.min(longest, MAX_LABEL_LENGTH) * 0.62 * fontSize(size);
}

function label(token) {
  const characters = [...token];
  const short =
    characters.length > MAX_LABEL_LENGTH
      ? `${characters.slice(0, MAX_LABEL_LENGTH - 1).join("")}\u2026`
      : token;
  // Isolated, so that right-to-left script keeps its own order.
  return `\u2068${short}\u2069`;
}
