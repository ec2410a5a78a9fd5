// A Transformer and its search, as keras_transformer computes them, with int8
// matrices. `bytes` are those of weights.py, described by `tensors`; states are
// rows of one Float32Array.
function createEngine({ config, tensors }, bytes) {
  // kernel.wat, compiled.
  const KERNEL = ""
    + "AGFzbQEAAAABDQFgCX9/f39/f39/fwADAgEABQYBAQGAgAQHFQIGbWVtb3J5AgAIbXVsdGlwbHkAAArrAQHoAQIF"
    + "fwF7A0AgAyEMQQAhCiAAIAdqIQ0DQCAAIQv9DAAAAAAAAAAAAAAAAAAAAAAhDgNAIA4gC/0BAwAgDP0ABAD9ugEg"
    + "C/0BAwggDP0ABBD9ugH9rgH9rgEhDiALQRBqIQsgDEEgaiEMIAsgDUkNAAsgDv36ASEOIAUgCiAGbCAJakECdGog"
    + "AioCACABKgIAIAQgCkECdGoqAgCUIA79HwAgDv0fAZIgDv0fAiAO/R8DkpKUkjgCACAKQQFqIQogCiAISQ0ACyAN"
    + "IQAgAUEEaiEBIAJBBGohAiAJQQFqIQkgCSAGSQ0ACws=";
  const [BEGIN, END, IMPOSSIBLE, LEAST_POSSIBLE] = [2, 3, -1e9, -5e8];
  const { num_heads: heads, d_k: keyDim, d_v: valueDim, d_model: width } = config;
  const code = Uint8Array.from(atob(KERNEL), each => each.charCodeAt(0));
  const { memory, multiply } = new WebAssembly.Instance(new WebAssembly.Module(code)).exports;
  const reserve = size => {
    const missing = size - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / 65536) + 16);
  };
  // After the weights come zeros, as biases, and the vectors of `project`.
  const mostRows = Math.max(...Object.values(tensors).map(each => each.rows ?? 0));
  const zeros = bytes.length, vectors = zeros + 4 * mostRows;
  reserve(vectors);
  new Uint8Array(memory.buffer).set(bytes);

  // Inputs [n, columns] times a matrix, plus its bias: [n, rows], a view that the
  // next call overwrites. Inputs are rounded to 15 bits, or fewer if sums of
  // products could overflow.
  function project(name, inputs) {
    const { weights, scales, rows, columns, stride } = tensors[name];
    const most = Math.min(32767, Math.floor(2 ** 33 / 127 / stride));
    const count = inputs.length / columns;
    const x = vectors, t = x + 2 * stride * count, y = t + 4 * count;
    reserve(y + 4 * rows * count);
    const integers = new Int16Array(memory.buffer, x, stride * count);
    const factors = new Float32Array(memory.buffer, t, count);
    if (stride > columns) integers.fill(0);
    for (let i = 0; i < count; i++) {
      const start = i * columns;
      let largest = 1e-30;
      for (let j = 0; j < columns; j++) largest = Math.max(largest, Math.abs(inputs[start + j]));
      factors[i] = largest / most;
      const factor = most / largest;
      for (let j = 0; j < columns; j++)
        integers[i * stride + j] = Math.round(inputs[start + j] * factor);
    }
    multiply(weights, scales, tensors[`${name}/bias`] ?? zeros, x, t, y, rows, stride, count);
    return new Float32Array(memory.buffer, y, rows * count);
  }

  function addTo(states, others) {
    for (let i = 0; i < states.length; i++) states[i] += others[i];
    return states;
  }

  function normalize(name, states) {
    const [gamma, beta] = ["gamma", "beta"].map(part =>
      new Float32Array(memory.buffer, tensors[`${name}/${part}`], width));
    const result = new Float32Array(states.length);
    for (let start = 0; start < states.length; start += width) {
      let mean = 0, variance = 0;
      for (let i = 0; i < width; i++) mean += states[start + i] / width;
      for (let i = 0; i < width; i++) variance += (states[start + i] - mean) ** 2 / width;
      const factor = 1 / Math.sqrt(variance + config.layer_norm_epsilon);
      for (let i = 0; i < width; i++)
        result[start + i] = (states[start + i] - mean) * factor * gamma[i] + beta[i];
    }
    return result;
  }

  function addSublayer(name, states, sublayer) {
    const norm = `${name}_residual/layer_norm`;
    return config.norm === "pre" ? addTo(states, sublayer(normalize(norm, states)))
      : normalize(norm, addTo(states, sublayer(states)));
  }

  // Abramowitz and Stegun, 7.1.26; the error is below 2e-7.
  function erf(x) {
    const t = 1 / (1 + 0.3275911 * Math.abs(x));
    const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t
      + 0.254829592) * t;
    return Math.sign(x) * (1 - sum * Math.exp(-x * x));
  }
  const activate = {
    relu: x => Math.max(x, 0),
    silu: x => x / (1 + Math.exp(-x)),
    gelu: x => x * 0.5 * (1 + erf(x * Math.SQRT1_2)),
  }[config.activation];

  const feedForward = (layer, states) => addSublayer(`${layer}/feed_forward`, states, inputs => {
    const inner = project(`${layer}/feed_forward/inner_projection`, inputs).slice();
    for (let i = 0; i < inner.length; i++) inner[i] = activate(inner[i]);
    return project(`${layer}/feed_forward/output_projection`, inner);
  });

  function embed(side, tokens, positions) {
    const result = new Float32Array(tokens.length * width), root = Math.sqrt(width);
    tokens.forEach((token, i) => {
      const table = `${side}_embedding` in tensors ? side : "target";
      addRow(`${table}_embedding`, token, root, result.subarray(i * width));
      if (config.positions === "learned")
        addRow(`${side}_positions`, positions[i], 1, result.subarray(i * width));
      else for (let j = 0; j < width; j += 2) {
        const angle = (positions[i] + config.first_position) * config.frequencies[j / 2];
        result[i * width + j] += Math.sin(angle);
        result[i * width + j + 1] += Math.cos(angle);
      }
    });
    return result;
  }

  function addRow(name, row, factor, target) {
    const { weights, scales, stride } = tensors[name];
    const integers = new Int8Array(memory.buffer, weights + row * stride, width);
    factor *= new Float32Array(memory.buffer, scales, row + 1)[row];
    for (let i = 0; i < width; i++) target[i] += integers[i] * factor;
  }

  // Joined heads [Q, H * d_v]. Query i is in row i of `queries`; it attends to the
  // rows slots[i] of `cache`, where keys begin at a column, and values after them.
  function attend(queries, queryStride, cache, stride, keysAt, slots) {
    const valuesAt = keysAt + heads * keyDim, count = queries.length / queryStride;
    const result = new Float32Array(count * heads * valueDim);
    const weights = new Float64Array(slots[0].length), scale = keyDim ** -0.5;
    for (let i = 0; i < count; i++) for (let h = 0; h < heads; h++) {
      const query = i * queryStride + h * keyDim, output = (i * heads + h) * valueDim;
      let largest = -Infinity, sum = 0;
      for (let s = 0; s < weights.length; s++) {
        const key = slots[i][s] * stride + keysAt + h * keyDim;
        let score = 0;
        for (let j = 0; j < keyDim; j++) score += queries[query + j] * cache[key + j];
        weights[s] = score * scale;
        largest = Math.max(largest, weights[s]);
      }
      for (let s = 0; s < weights.length; s++) sum += weights[s] = Math.exp(weights[s] - largest);
      for (let s = 0; s < weights.length; s++) {
        const value = slots[i][s] * stride + valuesAt + h * valueDim, weight = weights[s] / sum;
        for (let j = 0; j < valueDim; j++) result[output + j] += weight * cache[value + j];
      }
    }
    return result;
  }

  const keysAt = heads * keyDim, rowWidth = heads * (2 * keyDim + valueDim);

  function encode(source) {
    const positions = source.map((_, i) => i), all = source.map(() => positions);
    let states = embed("source", source, positions);
    for (let i = 1; i <= config.num_layers; i++) {
      const layer = `encoder/layer_${i}`, attention = `${layer}/self_attention`;
      states = addSublayer(attention, states, inputs => {
        const rows = project(`${attention}/query_key_value`, inputs);
        const heads = attend(rows, rowWidth, rows, rowWidth, keysAt, all);
        return project(`${attention}/output_projection`, heads);
      });
      states = feedForward(layer, states);
    }
    return config.norm === "pre" ? normalize("encoder/final_norm", states) : states;
  }

  // Logits [n, V] of the beams' last tokens. Row slots[i].at(-1) of the caches
  // gets the keys and values of beam i; the rows of its past are never moved.
  function decode(tokens, position, slots, caches) {
    let states = embed("target", tokens, tokens.map(() => position));
    caches.forEach(({ layer, past, memory, all }) => {
      const [attention, cross] = [`${layer}/self_attention`, `${layer}/cross_attention`];
      states = addSublayer(attention, states, inputs => {
        const rows = project(`${attention}/query_key_value`, inputs);
        past.set(rows, slots[0].at(-1) * rowWidth);
        const heads = attend(rows, rowWidth, past, rowWidth, keysAt, slots);
        return project(`${attention}/output_projection`, heads);
      });
      states = addSublayer(cross, states, inputs => {
        const queries = project(`${cross}/query`, inputs);
        const heads = attend(queries, keysAt, memory, rowWidth - keysAt, 0, all);
        return project(`${cross}/output_projection`, heads);
      });
      states = feedForward(layer, states);
    });
    const output = "output_embedding" in tensors ? "output_embedding" : "target_embedding";
    if (config.norm === "pre") states = normalize("decoder/final_norm", states);
    return project(output, states);
  }

  // Turns logits into log-probabilities, changed where they would repeat `tokens`.
  function scoreTokens(scores, tokens) {
    const size = config.no_repeat_ngram_size;
    let largest = -Infinity, sum = 0;
    for (let i = 0; i < scores.length; i++) largest = Math.max(largest, scores[i]);
    for (let i = 0; i < scores.length; i++) sum += Math.exp(scores[i] - largest);
    const normalizer = largest + Math.log(sum);
    for (let i = 0; i < scores.length; i++) scores[i] -= normalizer;
    for (const token of new Set(tokens)) scores[token] *= config.repetition_penalty;
    const last = tokens.slice(tokens.length + 1 - size).join();
    for (let i = size - 1; size && i < tokens.length; i++)
      if (tokens.slice(i + 1 - size, i).join() === last) scores[tokens[i]] = IMPOSSIBLE;
    return scores;
  }

  // The tokens of the `count` highest scores that may be generated, best first.
  function findBest(scores, count) {
    const best = [];
    for (let token = END; token < scores.length; token++) {
      if (best.length === count && scores[token] <= scores[best[count - 1]]) continue;
      let at = best.length;
      while (at && scores[best[at - 1]] < scores[token]) at--;
      best.splice(at, 0, token);
      if (best.length > count) best.pop();
    }
    return best;
  }

  // Hypotheses { tokens, score }, best first, for source ids with the end id. Beam
  // search: section 6.1, as `advance_search` of beam_search.py.
  return function translateIds(source, beams) {
    const isLearned = config.positions === "learned";
    let limit = source.length > 1 ? Math.max(source.length - 1 + config.max_extra_tokens, 1) : 1;
    if (isLearned) limit = Math.min(limit, config.max_positions);
    const penalty = length =>
      (config.length_penalty === "gnmt" ? (5 + length) / 6 : length) ** config.alpha;
    const states = encode(source), all = Array(beams).fill(source.map((_, i) => i));
    const caches = Array.from({ length: config.num_decoder_layers }, (_, i) => {
      const layer = `decoder/layer_${i + 1}`, past = new Float32Array(limit * beams * rowWidth);
      const memory = project(`${layer}/cross_attention/key_value`, states).slice();
      return { layer, past, memory, all };
    });
    let live = [{ tokens: [], slots: [], score: 0 }], finished = [];
    for (let length = 1; live.length; length++) {
      const slots = live.map((beam, i) => [...beam.slots, (length - 1) * beams + i]);
      const last = live.map(({ tokens }) => tokens.at(-1) ?? BEGIN);
      const logits = decode(last, length - 1, slots, caches), size = logits.length / live.length;
      const tooShort = length < Math.min(limit, 2), isExact = config.stop_criterion === "exact";
      let candidates = [];
      const ends = live.map((beam, parent) => {
        const start = parent * size;
        const scores = scoreTokens(logits.subarray(start, start + size), beam.tokens);
        for (const token of findBest(scores, 2 * beams))
          candidates.push({ token, parent, score: scores[token] + beam.score });
        return scores[END] + beam.score;
      });
      if (tooShort) candidates = candidates.filter(({ token }) => token !== END);
      candidates.sort((a, b) => b.score - a.score);
      const least = candidates[(isExact ? 2 : 1) * beams - 1]?.score ?? -Infinity;
      ends.forEach((score, i) => {
        const mayEnd = length >= limit || !tooShort && score >= least;
        if (mayEnd && score > LEAST_POSSIBLE)
          finished.push({ tokens: [...live[i].tokens, END], score: score / penalty(length) });
      });
      finished = finished.sort((a, b) => b.score - a.score).slice(0, beams);
      const next = candidates.filter(({ token, score }) => token !== END && score > LEAST_POSSIBLE);
      const worst = finished[beams - 1]?.score ?? IMPOSSIBLE, best = next[0]?.score ?? IMPOSSIBLE;
      const bestLength = !isExact ? length : config.alpha > 0 ? limit : length + 1;
      if (length >= limit || (config.stop_criterion === "k_finished"
          ? worst > LEAST_POSSIBLE : best / penalty(bestLength) <= worst)) break;
      live = next.slice(0, beams).map(({ token, parent, score }) =>
        ({ tokens: [...live[parent].tokens, token], slots: slots[parent], score }));
    }
    return finished;
  };
}
