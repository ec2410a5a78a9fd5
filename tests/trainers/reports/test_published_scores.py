"""Which published figures are said to be of which set."""

import pytest

from trainers.reports.published_scores import published_scores

MULTI30K = {
    "dataset": "text:data/",
    "split": "test",
    "source_language": "en",
    "target_language": "de",
    "signature": "nrefs:1|case:mixed|tok:none|version:2.6.0",
    "sentences": 1000,
    "reference_length": 12_103,
}
FRENCH = {**MULTI30K, "target_language": "fr", "reference_length": 13_988}


@pytest.mark.parametrize("record, score", [(MULTI30K, 41.02), (FRENCH, 61.8)])
def test_multi30k_is_known_by_its_size(record, score):
    first = published_scores(record)[0]
    assert (first.model, first.score) == ("Transformer-Tiny", score)


@pytest.mark.parametrize(
    "change",
    [
        {"target_language": "fr"},
        {"source_language": "de", "target_language": "en"},
        {"sentences": 999},
        {"reference_length": 12_104},
        {"signature": "nrefs:1|case:mixed|tok:13a|version:2.6.0"},
    ],
)
def test_another_set_has_none(change):
    assert published_scores(MULTI30K | change) == ()


@pytest.mark.parametrize(
    "direction, score", [(("de", "en", "de"), 27.3), (("fr", "en", "fr"), 38.1)]
)
def test_wmt14_is_known_by_its_name(direction, score):
    pair, source, target = direction
    record = {
        "dataset": f"wmt14_translate/{pair}-en",
        "split": "test",
        "source_language": source,
        "target_language": target,
    }
    assert published_scores(record)[0].score == score
    assert published_scores(record | {"split": "dev"}) == ()
