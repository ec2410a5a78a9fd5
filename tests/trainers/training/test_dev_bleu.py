"""BLEU of dev sentences while training, against sacreBLEU by hand."""

import numpy as np
import sacrebleu

from tests.trainers.helpers import minute_model
from trainers.batches.token_pairs import TokenPairs
from trainers.training.callbacks import DevBleu

END = 3


class _Letters:
    """Each id from 4 on is a word; the model's tokenizer in miniature."""

    def decode(self, ids):
        rows = np.asarray(ids)
        return [" ".join(f"w{i}" for i in row if i > END) for row in rows]

    def encode(self, texts):
        return [
            np.array([*(int(w[1:]) for w in text.split()), END], "int32")
            for text in texts
        ]


def test_is_the_score_of_the_translations(monkeypatch):
    pairs = [([5, 6, 7, 8, END], [9, 8, 7, 6, END]), ([4, END], [5, 6, END])]
    pairs += [([7, 7, 9, END], [6, 5, 4, 9, END])] * 2
    ids = np.concatenate([np.array(s + t, "int32") for s, t in pairs])
    lengths = np.array([(len(s), len(t)) for s, t in pairs])
    model, asked = minute_model(), []

    class Copying:
        """Stands in for the translator: it answers with the source."""

        def __init__(self, *_):
            pass

        def translate(self, texts):
            asked.append(list(texts))
            return [type("Found", (), {"text": text}) for text in texts]

    monkeypatch.setattr("trainers.training.callbacks.Translator", Copying)
    bleu = DevBleu(model, _Letters(), TokenPairs([(ids, lengths)]), 2, "char")
    sources = ["w5 w6 w7 w8", "w7 w7 w9"]
    references = ["w9 w8 w7 w6", "w6 w5 w4 w9"]
    right = sacrebleu.BLEU(tokenize="char").corpus_score(sources, [references])
    assert bleu() == right.score
    assert asked == [sources]
