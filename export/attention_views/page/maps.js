// The integer for a weight of 1.
const ONE = 4095;

/** Attention weights of all layers and heads between two lists of tokens. */
class Maps {
  /**
   * @param tokens {from, to}: two lists of strings.
   * @param heads number of heads of a layer.
   * @param weights Uint16Array [layers, heads, from, to].
   */
  constructor(tokens, heads, weights) {
    this.from = tokens.from;
    this.to = tokens.to;
    this.heads = heads;
    this.weights = weights;
  }

  weight(layer, head, from, to) {
    const row = (layer * this.heads + head) * this.from.length + from;
    return this.weights[row * this.to.length + to] / ONE;
  }

  /** Returns the mean weight of some heads. */
  mean(layer, heads, from, to) {
    let sum = 0;
    for (const head of heads) sum += this.weight(layer, head, from, to);
    return heads.length ? sum / heads.length : 0;
  }

  /** Returns a head's weights between a word and the other column. */
  wordWeights(layer, head, word) {
    return this[otherSide(word.side)].map((_, other) =>
      word.side === "from"
        ? this.weight(layer, head, word.index, other)
        : this.weight(layer, head, other, word.index),
    );
  }
}

/** Returns the Maps of every unit and kind. */
async function unpackMaps({ layers, heads, units, weights }) {
  const values = await inflate(weights);
  const maps = {};
  let start = 0;
  for (const [unit, kinds] of Object.entries(units)) {
    maps[unit] = {};
    for (const [kind, tokens] of Object.entries(kinds)) {
      const area = tokens.from.length * tokens.to.length;
      const size = layers[kind] * heads * area;
      const array = values.subarray(start, start + size);
      maps[unit][kind] = new Maps(tokens, heads, array);
      start += size;
    }
  }
  return maps;
}

async function inflate(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed])
    .stream()
    .pipeThrough(new DecompressionStream("deflate"));
  return new Uint16Array(await new Response(stream).arrayBuffer());
}

function otherSide(side) {
  return side === "from" ? "to" : "from";
}
