"""Which published figures are compared with which set."""

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
FRENCH = {"target_language": "fr", "reference_length": 13_988}
WMT14 = {"dataset": "wmt14_translate/de-en"}
WMT14_FRENCH = {"dataset": "wmt14_translate/fr-en", "target_language": "fr"}


@pytest.mark.parametrize(
    "changes, score",
    [
        ({}, "41.02"),
        (FRENCH, "61.8"),
        (WMT14, "27.3"),
        (WMT14_FRENCH, "38.1"),
        ({"target_language": "fr"}, None),
        ({"source_language": "de", "target_language": "en"}, None),
        ({"sentences": 999}, None),
        ({"reference_length": 12_104}, None),
        ({"signature": "nrefs:1|case:mixed|tok:13a|version:2.6.0"}, None),
        (WMT14_FRENCH | {"split": "dev"}, None),
    ],
)
def test_sets_are_recognised(changes, score):
    published = published_scores(MULTI30K | changes)
    assert (published[0].bleu if published else None) == score
