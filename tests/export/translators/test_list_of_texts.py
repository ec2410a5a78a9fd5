"""Every method that takes texts refuses one text, and what is no text."""

import numpy as np
import pytest

from export.attention_views.reader import AttentionReader
from export.common.errors import InputError
from export.serving.exported_translator import ExportedTranslator
from export.tokenizers.tokenizer import Tokenizer
from export.translators.text_ids import list_of_texts
from tests import made_up_text
from tests.export.client.test_bad_servers import ALIGN, remote

BAD = ("ba ka", b"ba", [3], ["ba", None], ["ba", "a\ud800"])
METHODS = {
    "translate": lambda made, texts: made.translate(texts),
    "n_best": lambda made, texts: made.n_best(texts, 1),
    "align": lambda made, texts: made.align(texts),
    "lengths": lambda made, texts: made.lengths(texts),
    "score": lambda made, texts: made.score(texts, ["ba", "ba"]),
    "score of": lambda made, texts: made.score(["ba", "ba"], texts),
    "sample": lambda made, texts: made.sample(texts, [1, 2]),
    "best_ids": lambda made, texts: made.best_ids(texts),
    "given_ids": lambda made, texts: made.given_ids(texts, ["ba", "ba"]),
    "normalize_prefixes": lambda made, texts: made.normalize_prefixes(texts),
    "prefixes": lambda made, texts: made.translate(["ba"] * 2, None, texts),
}
COMMON = ("translate", "n_best", "align", "lengths", "score", "score of")


def test_every_public_method(translator):
    reader = AttentionReader(translator)
    calls = [(METHODS[name], translator) for name in METHODS]
    # Not loaded: texts are refused before.
    exported = ExportedTranslator.__new__(ExportedTranslator)
    exported._signatures = {"lengths": None}
    calls += [(METHODS[name], exported) for name in COMMON]
    calls += [(METHODS[name], remote(ALIGN)[0]) for name in COMMON[:4]]
    calls.append((lambda made, texts: made.read(texts), reader))
    calls.append((lambda made, texts: made.read(["ba"] * 2, texts), reader))
    for texts in BAD:
        for call, made in calls:
            with pytest.raises(InputError):
                call(made, texts)


def test_any_sequence_of_texts_is_taken():
    texts = ["ba", ""]
    for given in (texts, tuple(texts), iter(texts), np.array(texts)):
        assert list_of_texts(given) == texts
    with pytest.raises(TypeError, match="not one text"):
        Tokenizer(made_up_text.vocabulary()).encode("ba")
