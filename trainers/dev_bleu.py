"""BLEU of a sample of the dev split while a model is trained."""

import numpy as np

from export.translators.translator import Translator
from trainers import bleu_tokenizers
from trainers.dev_texts import texts_of


class DevBleu:
    """Translates the same dev sentences each time it is called.

    The references are the stored pieces joined again, so spelling that the
    vocabulary normalises is normalised in them too; final scores are made
    from the text itself.

    Args:
        model: Transformer, with the weights of the moment.
        tokenizer: Tokenizer.
        pairs: TokenPairs of the dev split.
        sentences: how many, from all over the split.
        tokenize: name of sacreBLEU's tokeniser.
    """

    def __init__(self, model, tokenizer, pairs, sentences, tokenize):
        stride = max(len(pairs) // sentences, 1)
        sample = np.arange(0, len(pairs), stride)[:sentences]
        self._translator = Translator(model, tokenizer)
        self._metric = bleu_tokenizers.metric(tokenize)
        self._sources, self._references = texts_of(tokenizer, pairs, sample)

    def __call__(self):
        """Returns sacreBLEU, 0 to 100."""
        found = self._translator.translate(self._sources)
        texts = [translation.text for translation in found]
        return self._metric.corpus_score(texts, [self._references]).score
