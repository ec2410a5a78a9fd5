"""BLEU of a sample of the dev split while a model is trained."""

import numpy as np
import sacrebleu

from export.translator import Translator


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
    """

    def __init__(self, model, tokenizer, pairs, sentences):
        stride = max(len(pairs) // sentences, 1)
        sample = np.arange(0, len(pairs), stride)[:sentences]
        self._translator = Translator(model, tokenizer)
        self._sources = tokenizer.decode(
            _rows(pairs.sources(sample), pairs.source_lengths[sample])
        )
        self._references = tokenizer.decode(
            _rows(pairs.targets(sample), pairs.target_lengths[sample])
        )

    def __call__(self):
        """Returns sacreBLEU (13a), 0 to 100."""
        found = self._translator.translate(self._sources)
        texts = [translation.text for translation in found]
        return sacrebleu.corpus_bleu(texts, [self._references]).score


def _rows(ids, lengths):
    matrix = np.zeros((len(lengths), lengths.max(initial=1)), np.int32)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = ids
    return matrix
