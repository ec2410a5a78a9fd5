"""Perplexity of given translations, against numpy sentence by sentence."""

import math

import numpy as np
import pytest

from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.export import tiny
from trainers.data import EvaluationSet
from trainers.scores.evaluation import measure_perplexity

SOURCES = ("ba doké.", "", "fà luno ba", "te")
REFERENCES = (("doké ba", "ba."), ("né",), ("luno fà te ba",), ("te", "ba"))


@pytest.fixture(scope="module")
def translator():
    return Translator(tiny.model(), Tokenizer(made_up_text.vocabulary()))


def _by_hand(translator, pairs):
    total, count = 0.0, 0
    for source, target in pairs:
        source, target = translator.tokenizer.encode([source, target])
        logits = translator.model(
            {
                "source": source[None],
                "target": np.array([[BEGIN_ID, *target[:-1]]], np.int32),
            }
        )
        scores = np.float64(logits)[0]
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        total += scores[np.arange(len(target)), target].sum()
        count += len(target)
    return math.exp(-total / count), count


def _evaluation_set(kept=(0, 2, 3)):
    return EvaluationSet(
        tuple(SOURCES[i] for i in kept), tuple(REFERENCES[i] for i in kept)
    )


def _pairs(evaluation_set):
    groups = zip(evaluation_set.sources, evaluation_set.references)
    return [(source, each) for source, group in groups for each in group]


def test_equals_numpy_over_all_references_that_fit(translator, monkeypatch):
    wanted, count = _by_hand(translator, _pairs(_evaluation_set()))
    found = measure_perplexity(translator, _evaluation_set())
    assert (found.tokens, found.skipped) == (count, 0)
    assert found.per_token == pytest.approx(wanted, rel=1e-5)
    assert wanted > 2
    monkeypatch.setattr(translator, "max_source_tokens", 14)
    long = "ba doké fà luno te né " * 3
    evaluation_set = EvaluationSet(
        (*_evaluation_set().sources, long, "te"),
        (*_evaluation_set().references, ("ba",), (long, "ba")),
    )
    pairs = [pair for pair in _pairs(evaluation_set) if long not in pair]
    wanted, count = _by_hand(translator, pairs)
    found = measure_perplexity(translator, evaluation_set)
    assert (found.tokens, found.skipped) == (count, 2)
    assert found.per_token == pytest.approx(wanted, rel=1e-5)
    alone = EvaluationSet((long,), (("ba",),))
    assert measure_perplexity(translator, alone) is None
