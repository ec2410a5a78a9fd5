// Text in, translations out, sentence by sentence; recent ones are kept.
function createTranslator(model, parts) {
  const bytes = new Uint8Array(model.size);
  let at = 0;
  for (const part of parts.map(atob))
    for (let i = 0; i < part.length; i++) bytes[at++] = part.charCodeAt(i);
  if (at !== model.size) throw new Error("a file of the model is missing.");
  const [source, target = source] = model.vocabularies.map(createTokenizer);
  const translateIds = createEngine(model, bytes), kept = new Map();
  const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });

  function splitSentences(text) {
    const sentences = [];
    let isOpen = false;
    for (const { segment } of segmenter.segment(text)) {
      if (isOpen) sentences.push(sentences.pop() + segment);
      else sentences.push(segment);
      // An initial or a title, as in "Mr. Smith", ends no sentence.
      isOpen = /(^|\s)(\p{Lu}\p{L}?|Mrs|Prof)\. *$/u.test(segment);
    }
    return sentences;
  }

  function translateSentence(text, beams) {
    const ids = source.encode(text), isTruncated = ids.length > model.limit;
    if (isTruncated) ids.splice(model.limit - 1, ids.length - model.limit);
    const best = ids.length > 1 ? translateIds(ids, beams) : [{ tokens: [] }];
    return { translations: best.map(({ tokens }) => target.decode(tokens)), isTruncated };
  }

  // { translations, isTruncated }: the best few of one sentence, one of several.
  return function translate(text, beams) {
    const results = splitSentences(text).map(sentence => {
      const [, before, middle, after] = /^(\s*)(.*?)(\s*)$/s.exec(sentence), key = beams + middle;
      if (kept.size > 1000) kept.clear();
      if (!kept.has(key)) kept.set(key, translateSentence(middle, beams));
      return { ...kept.get(key), before, after };
    });
    const translations = results.length === 1 ? [...new Set(results[0].translations)]
      : [results.map(each => each.before + each.translations[0] + each.after).join("")];
    return { translations, isTruncated: results.some(each => each.isTruncated) };
  };
}
