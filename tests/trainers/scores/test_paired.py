import numpy as np
import pytest
import sacrebleu

from tests.trainers.scores.test_metrics import HYPOTHESES, REFERENCES
from trainers.corpora import EvaluationSet
from trainers.scores import metrics

WORSE = [" ".join(text.split()[:4]) for text in HYPOTHESES]


@pytest.fixture
def evaluation_set():
    sources = tuple("source" for _ in REFERENCES)
    return EvaluationSet(sources, tuple(REFERENCES))


def test_equals_scores_of_resampled_texts(evaluation_set, monkeypatch):
    monkeypatch.setattr(metrics, "BOOTSTRAP_SAMPLES", 40)
    streams = evaluation_set.reference_streams()

    def score(texts, places):
        resampled = [[stream[n] for n in places] for stream in streams]
        chosen = [texts[n] for n in places]
        return sacrebleu.corpus_bleu(chosen, resampled).score

    def difference(places):
        return score(HYPOTHESES, places) - score(WORSE, places)

    chance = np.random.default_rng(12345)
    places = chance.choice(len(HYPOTHESES), size=(40, len(HYPOTHESES)))
    low, high = np.percentile([*map(difference, places)], [2.5, 97.5])
    found = metrics.bleu_difference(HYPOTHESES, WORSE, evaluation_set, "13a")
    whole = difference(range(len(HYPOTHESES)))
    assert found.difference == pytest.approx(whole)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.how == "bs:40|seed:12345"
    assert whole > 0 and f"{whole:+.2f} BLEU" in found.line


def test_the_other_way_round_is_the_negative(evaluation_set):
    found = metrics.bleu_difference(HYPOTHESES, WORSE, evaluation_set, "13a")
    other = metrics.bleu_difference(WORSE, HYPOTHESES, evaluation_set, "13a")
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))


def test_equal_translations_differ_by_nothing(evaluation_set):
    found = metrics.bleu_difference(
        HYPOTHESES, HYPOTHESES, evaluation_set, "13a"
    )
    assert (found.difference, found.low, found.high) == (0.0, 0.0, 0.0)


def test_test_sets_and_systems_are_pooled(evaluation_set):
    """As one set that has every sentence for every system."""
    counts = [
        metrics.bleu_counts(texts, evaluation_set, "13a")
        for texts in (HYPOTHESES, WORSE)
    ]
    better, worse = counts
    pooled = metrics.difference_of(
        np.concatenate([better + worse, worse + worse]),
        np.concatenate([worse + worse, worse + better]),
    )
    texts = [*HYPOTHESES, *WORSE, *WORSE, *WORSE]
    others = [*WORSE, *WORSE, *WORSE, *HYPOTHESES]
    streams = [4 * list(each) for each in evaluation_set.reference_streams()]
    scores = [
        sacrebleu.corpus_bleu(each, streams).score for each in (texts, others)
    ]
    assert pooled.difference == pytest.approx(scores[0] - scores[1])
    assert pooled.low < pooled.difference < pooled.high
