/** Attention between two lists of tokens, of all layers and heads. */
class Maps {
  /**
   * @param embedded {from, to, weights}: two lists of strings, and the base64
   *     of little-endian uint16 [layers, heads, from, to], 65535 being 1.
   */
  constructor(embedded, heads) {
    this.from = embedded.from;
    this.to = embedded.to;
    this.heads = heads;
    const bytes = Uint8Array.from(atob(embedded.weights), (character) =>
      character.charCodeAt(0),
    );
    this.weights = new Uint16Array(bytes.buffer);
  }

  weight(layer, head, from, to) {
    const row = (layer * this.heads + head) * this.from.length + from;
    return this.weights[row * this.to.length + to] / 65535;
  }

  /** The mean of some heads. */
  mean(layer, heads, from, to) {
    let sum = 0;
    for (const head of heads) sum += this.weight(layer, head, from, to);
    return heads.length ? sum / heads.length : 0;
  }

  /** One head's weights between a word and each of the other list. */
  ofWord(layer, head, word) {
    return this[otherSide(word.side)].map((_, other) =>
      word.side === "from"
        ? this.weight(layer, head, word.index, other)
        : this.weight(layer, head, other, word.index),
    );
  }
}

function otherSide(side) {
  return side === "from" ? "to" : "from";
}
