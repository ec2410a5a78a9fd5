// SentencePiece: text to ids and back, by a vocabulary of vocabulary.py.
function createTokenizer({ type, pieces, scores, kinds, rules, ...options }) {
  const UNKNOWN = 1, END = 3;
  const [NORMAL, CONTROL, SYMBOL, OTHER_SIDE, BYTE, READ_AS_UNKNOWN] = "134567";
  const SPACE = "\u2581", UPPER = "\ufdd0", TITLE = "\ufdd1", MARKS = /[\ufdd0\ufdd1] ?/g;
  const encoder = new TextEncoder();
  const decode = bytes => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  const isMatched = id => [NORMAL, SYMBOL, READ_AS_UNKNOWN].includes(kinds[id]);
  const names = new Map(pieces.map((piece, id) => [piece, id]));
  const ids = new Map([...names].filter(([, id]) => isMatched(id)));
  const symbols = pieces.filter((_, id) => kinds[id] === SYMBOL)
    .sort((a, b) => b.length - a.length);
  const frozen = new Set(symbols);
  const normal = scores.map(Math.fround).filter((_, id) => "17".includes(kinds[id]));
  const [lowest, highest] = normal.reduce(
    ([low, high], score) => [Math.min(low, score), Math.max(high, score)], [Infinity, -Infinity]);
  const longest = Math.max(...[...ids.keys()].map(piece => piece.length));
  const patterns = rules.map(([pattern, to]) => [new RegExp(pattern, "gu"), to]);
  const charsmap = Uint8Array.from(atob(options.charsmap), each => each.charCodeAt(0));
  const trieSize = charsmap.length && new DataView(charsmap.buffer).getUint32(0, true);
  const trie = new Uint32Array(charsmap.slice(4, 4 + trieSize).buffer);
  const replacements = charsmap.subarray(4 + trieSize);

  // The longest rule that matches bytes from `start`: its length, 0 for none,
  // and its replacement. The trie is a double array of darts-clone.
  function findRule(bytes, start) {
    let [node, unit, length, value] = [0, trie[0], 0, 0];
    for (let i = start; trie.length; i++) {
      node ^= (unit >>> 10) << ((unit & 512) >>> 6);
      if (i > start && unit & 256) [length, value] = [i - start, trie[node] & 0x7fffffff];
      if (i === bytes.length) break;
      unit = trie[node ^= bytes[i]];
      if ((unit & 0x800000ff) >>> 0 !== bytes[i]) break;
    }
    return [length, decode(replacements.subarray(value, replacements.indexOf(0, value)))];
  }

  const findSymbol = (text, at) => symbols.find(symbol => text.startsWith(symbol, at));

  function normalize(original) {
    const bytes = encoder.encode(original), text = decode(bytes);
    if (!text) return "";
    let result = "", afterSpace = true;
    for (let i = 0, byte = 0; i < text.length;) {
      let found = findSymbol(text, i), output = found;
      if (!found) {
        const [length, replacement] = findRule(bytes, byte);
        found = length ? decode(bytes.subarray(byte, byte + length))
          : String.fromCodePoint(text.codePointAt(i));
        output = length ? replacement : found;
      }
      i += found.length;
      byte += encoder.encode(found).length;
      if (options.trim && afterSpace) output = output.replace(/^ +/, "");
      if (output) afterSpace = output.endsWith(" ");
      result += output;
    }
    result = (options.prefix ? SPACE : "") + result.replaceAll(" ", SPACE);
    return options.trim ? result.replace(/\u2581+$/, "") : result;
  }

  // Byte-pair encoding: the pair of neighbours with the best score is merged.
  function mergePairs(text) {
    const parts = [];
    for (let i = 0; i < text.length; i += parts.at(-1).length)
      parts.push(findSymbol(text, i) ?? String.fromCodePoint(text.codePointAt(i)));
    const scorePair = i => frozen.has(parts[i]) || frozen.has(parts[i + 1]) ? -Infinity
      : scores[ids.get(parts[i] + parts[i + 1])] ?? -Infinity;
    const pairs = parts.slice(1).map((_, i) => scorePair(i));
    for (;;) {
      let best = -1;
      pairs.forEach((score, i) => { if (score > (pairs[best] ?? -Infinity)) best = i; });
      if (best < 0) return parts;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
      pairs.splice(best, 1);
      if (best > 0) pairs[best - 1] = scorePair(best - 1);
      if (best < pairs.length) pairs[best] = scorePair(best);
    }
  }

  // The unigram model's most likely parts, in float32 as SentencePiece.
  function findBestPath(text) {
    const characters = Array.from(text), best = [{ score: 0 }];
    for (let start = 0; start < characters.length; start++) {
      const offer = (end, score) => {
        score += best[start].score;
        if (!(score <= best[end]?.score)) best[end] = { score: Math.fround(score), start };
      };
      let piece = "", isSingle = false;
      for (let end = start + 1; end <= characters.length; end++) {
        piece += characters[end - 1];
        if (piece.length > longest) break;
        const id = ids.get(piece);
        if (id === undefined) continue;
        offer(end, kinds[id] !== SYMBOL ? Math.fround(scores[id])
          : encoder.encode(piece).length * highest - 0.1);
        isSingle ||= end === start + 1;
      }
      if (!isSingle) offer(start + 1, Math.fround(lowest - 10));
    }
    const parts = [];
    for (let end = characters.length; end; end = best[end].start)
      parts.unshift(characters.slice(best[end].start, end).join(""));
    return parts;
  }

  // Capitals as a mark and small letters, as in letter_case.py.
  const GAP = String.raw`\t\n\f\r `, CODE = String.raw`@%{}$<>/\\_`;
  const wholeText = word =>
    new RegExp(`^[${GAP}]*(?:${word})(?:[${GAP}]+(?:${word}))*[${GAP}]*$`, "u");
  const cases = [
    [UPPER, 2, wholeText(String.raw`[^\p{Ll}\p{Lt}${GAP}${CODE}]+|` +
      String.raw`[^\p{Lu}${GAP}${CODE}]*[${CODE}][^\p{Lu}${GAP}]*`)],
    [TITLE, 3, wholeText(
      String.raw`[^\p{L}${GAP}]*\p{Lu}[^\p{Lu}${GAP}]*|[^\p{L}${GAP}]+`)],
  ];

  function markCase(text) {
    text = text.replace(MARKS, "");
    const numCapitals = text.match(/\p{Lu}/gu)?.length ?? 0;
    for (const [mark, least, pattern] of cases)
      if (numCapitals >= least && pattern.test(text) && !names.has(SPACE + text))
        return `${mark} ${text.toLowerCase()}`;
    return text;
  }

  function restoreCase(text) {
    const isCode = new RegExp(`[${CODE}]`, "u");
    const mark = text[0], words = text.replace(MARKS, "").split(" ");
    if (mark === UPPER)
      return words.map(word => isCode.test(word) ? word : word.toUpperCase()).join(" ");
    if (mark !== TITLE) return words.join(" ");
    return words.map(word => word.replace(/\p{L}/u, letter => letter.toUpperCase())).join(" ");
  }

  return {
    encode(text) {
      for (const [pattern, replacement] of patterns) text = text.replace(pattern, replacement);
      text = text.replaceAll("\0", "");
      const tag = options.hasTag && /^[\t\n\f\r ]*(>>[^<>\t\n\f\r ]+<<)/.exec(text);
      if (tag) text = text.slice(tag[0].length);
      if (options.caseMarks) text = markCase(text);
      const parts = (type === "bpe" ? mergePairs : findBestPath)(normalize(text)), result = [];
      while (parts.length) {
        let part = parts.shift(), id = ids.get(part);
        if (id === undefined && options.byteFallback) {
          for (const byte of encoder.encode(part))
            result.push(names.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`));
          continue;
        }
        if (id === undefined) {
          while (parts.length && !ids.has(parts[0])) part += parts.shift();
          // With two vocabularies, a piece of the other side has an id too.
          id = options.isPair && OTHER_SIDE === kinds[names.get(part)] ? names.get(part) : UNKNOWN;
        }
        result.push(kinds[id] === READ_AS_UNKNOWN ? UNKNOWN : id);
      }
      if (tag && result.length) result.unshift(names.get(tag[1]) ?? UNKNOWN);
      return [...result, END];
    },
    decode(tokens) {
      let text = "", bytes = [], sawSpace = !options.prefix && !options.trim;
      for (const id of [...tokens, END]) {
        if (kinds[id] === BYTE) { bytes.push(parseInt(pieces[id].slice(3, 5), 16)); continue; }
        text += decode(Uint8Array.from(bytes));
        bytes = [];
        if (kinds[id] === CONTROL) continue;
        let piece = pieces[id];
        if (!text && !sawSpace && piece.startsWith(SPACE)) {
          piece = piece.slice(1);
          sawSpace = !options.trim;
        }
        text += piece.replaceAll(SPACE, " ");
      }
      return options.caseMarks ? restoreCase(text) : text;
    },
  };
}
