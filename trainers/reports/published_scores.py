"""Published BLEU scores and perplexities, with their sources."""

import typing


class PublishedScore(typing.NamedTuple):
    """A published BLEU of a model, how it was counted, and the source."""

    model: str
    bleu: str
    how: str
    source: str


_PAPER = "Vaswani et al. 2017, Table 2"
_SPLIT = "tokenised, compound-split"
_WU = "Wu et al. 2021, arXiv 2105.14462"
_TOK = "lower-cased, Moses-tokenised; sacrebleu --tokenize none"

# By data set, source and target language.
_WMT14 = {
    ("wmt14_translate/de-en", "en", "de"): (
        PublishedScore("base", "27.3", _SPLIT, _PAPER),
        PublishedScore("big", "28.4", _SPLIT, _PAPER),
        PublishedScore(
            "base", "27.7", "lower-cased", "TensorFlow Model Garden"
        ),
        PublishedScore("base", "26.93", "sacreBLEU", "OpenNMT-tf"),
        PublishedScore("base", "24.38", "sacreBLEU", "JoeyNMT"),
        PublishedScore(
            "big", "28.6", "sacreBLEU", "fairseq (29.3 compound-split)"
        ),
    ),
    ("wmt14_translate/fr-en", "en", "fr"): (
        PublishedScore("base", "38.1", _SPLIT, _PAPER),
        PublishedScore("big", "41.8", _SPLIT, _PAPER),
    ),
}
# Multi30k's test set of 2016 is read from text files of any name, so it is
# recognised by languages and numbers of sentences and reference tokens.
_MULTI30K = {
    ("en", "de", 1000, 12_103): (
        PublishedScore("Transformer-Tiny", "41.02", _TOK, _WU),
        PublishedScore(
            "Transformer-Small", "39.68", _TOK, f"{_WU}, indirectly"
        ),
        PublishedScore("Transformer-Base", "38.33", _TOK, f"{_WU}, indirectly"),
    ),
    ("en", "fr", 1000, 13_988): (
        PublishedScore("Transformer-Tiny", "61.8", _TOK, _WU),
    ),
}


def published_scores(record):
    """Returns the PublishedScores on the test set of a scores.json entry."""
    languages = (record.get("source_language"), record.get("target_language"))
    dataset = record.get("dataset", "").partition(":")[0]
    if record.get("split") == "test" and (dataset, *languages) in _WMT14:
        return _WMT14[dataset, *languages]
    size = (record.get("sentences"), record.get("reference_length"))
    if "tok:none" not in record.get("signature", ""):
        return ()
    return _MULTI30K.get((*languages, *size), ())


class Table3Figures(typing.NamedTuple):
    """Perplexity per token, compound-split BLEU and millions of parameters.

    On newstest2013; None where Table 3 of the paper omits it.
    """

    perplexity: float
    bleu: float
    parameters: int | None


# By names of presets, in the table's order.
TABLE_3 = {
    "base": Table3Figures(4.92, 25.8, 65),
    "A1": Table3Figures(5.29, 24.9, None),
    "A4": Table3Figures(5.00, 25.5, None),
    "A16": Table3Figures(4.91, 25.8, None),
    "A32": Table3Figures(5.01, 25.4, None),
    "B16": Table3Figures(5.16, 25.1, 58),
    "B32": Table3Figures(5.01, 25.4, 60),
    "C-n2": Table3Figures(6.11, 23.7, 36),
    "C-n4": Table3Figures(5.19, 25.3, 50),
    "C-n8": Table3Figures(4.88, 25.5, 80),
    "C-d256": Table3Figures(5.75, 24.5, 28),
    "C-d1024": Table3Figures(4.66, 26.0, 168),
    "C-ff1024": Table3Figures(5.12, 25.4, 53),
    "C-ff4096": Table3Figures(4.75, 26.2, 90),
    "D-drop0": Table3Figures(5.77, 24.6, None),
    "D-drop2": Table3Figures(4.95, 25.5, None),
    "D-ls0": Table3Figures(4.67, 25.3, None),
    "D-ls2": Table3Figures(5.47, 25.7, None),
    "E-learned": Table3Figures(4.92, 25.7, None),
    "big": Table3Figures(4.33, 26.4, 213),
}
