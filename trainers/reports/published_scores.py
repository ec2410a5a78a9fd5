"""Figures of others, each with its source, to stand beside ours."""

import dataclasses
import typing

_PAPER = "Vaswani et al. 2017, Table 2"
_SPLIT = "tokenised, compound-split"
_WU = "Wu et al. 2021, arXiv 2105.14462"
_TOK = "lower-cased, Moses-tokenised; sacrebleu --tokenize none"


@dataclasses.dataclass(frozen=True)
class PublishedScore:
    """One figure of others.

    Attributes:
        model: what was trained.
        score: BLEU.
        how: which BLEU it is.
        source: who published it.
    """

    model: str
    score: float
    how: str
    source: str


_NEWSTEST2014_EN_DE = (
    PublishedScore("base", 27.3, _SPLIT, _PAPER),
    PublishedScore("big", 28.4, _SPLIT, _PAPER),
    PublishedScore("base", 27.7, "lower-cased", "TensorFlow Model Garden"),
    PublishedScore("base", 26.93, "sacreBLEU", "OpenNMT-tf"),
    PublishedScore("base", 24.38, "sacreBLEU", "JoeyNMT"),
    PublishedScore("big", 28.6, "sacreBLEU", "fairseq (29.3 compound-split)"),
)
_NEWSTEST2014_EN_FR = (
    PublishedScore("base", 38.1, _SPLIT, _PAPER),
    PublishedScore("big", 41.8, _SPLIT, _PAPER),
)
_MULTI30K_2016_EN_DE = (
    PublishedScore("Transformer-Tiny", 41.02, _TOK, _WU),
    PublishedScore("Transformer-Small", 39.68, _TOK, f"{_WU}, second-hand"),
    PublishedScore("Transformer-Base", 38.33, _TOK, f"{_WU}, second-hand"),
)
_MULTI30K_2016_EN_FR = (PublishedScore("Transformer-Tiny", 61.8, _TOK, _WU),)


def published_scores(record):
    """Returns what others reached on the set of an entry of scores.json.

    WMT14 is known by its name in TensorFlow Datasets; Multi30k, which comes as
    text under any name, by its number of sentences and tokens.

    Args:
        record: dict.

    Returns:
        A tuple of PublishedScore, empty where the set is none of these.
    """
    direction = (record.get("source_language"), record.get("target_language"))
    is_test = record.get("split") == "test"
    dataset = record.get("dataset", "").partition(":")[0]
    wmt14 = {
        ("wmt14_translate/de-en", "en", "de"): _NEWSTEST2014_EN_DE,
        ("wmt14_translate/fr-en", "en", "fr"): _NEWSTEST2014_EN_FR,
    }
    if is_test and (dataset, *direction) in wmt14:
        return wmt14[(dataset, *direction)]
    multi30k = {
        ("en", "de", 1000, 12_103): _MULTI30K_2016_EN_DE,
        ("en", "fr", 1000, 13_988): _MULTI30K_2016_EN_FR,
    }
    size = (record.get("sentences"), record.get("reference_length"))
    is_tokenized = "tok:none" in record.get("signature", "")
    return multi30k.get((*direction, *size), ()) if is_tokenized else ()


class PaperRow(typing.NamedTuple):
    """What the paper prints of a row.

    Attributes:
        perplexity: per word piece.
        bleu: tokenised, compound-split.
        parameters: in millions, or None where the table leaves it out.
    """

    perplexity: float
    bleu: float
    parameters: int | None


# In the table's order, by the names of the presets.
PAPER = {
    "base": PaperRow(4.92, 25.8, 65),
    "A1": PaperRow(5.29, 24.9, None),
    "A4": PaperRow(5.00, 25.5, None),
    "A16": PaperRow(4.91, 25.8, None),
    "A32": PaperRow(5.01, 25.4, None),
    "B16": PaperRow(5.16, 25.1, 58),
    "B32": PaperRow(5.01, 25.4, 60),
    "C-n2": PaperRow(6.11, 23.7, 36),
    "C-n4": PaperRow(5.19, 25.3, 50),
    "C-n8": PaperRow(4.88, 25.5, 80),
    "C-d256": PaperRow(5.75, 24.5, 28),
    "C-d1024": PaperRow(4.66, 26.0, 168),
    "C-ff1024": PaperRow(5.12, 25.4, 53),
    "C-ff4096": PaperRow(4.75, 26.2, 90),
    "D-drop0": PaperRow(5.77, 24.6, None),
    "D-drop2": PaperRow(4.95, 25.5, None),
    "D-ls0": PaperRow(4.67, 25.3, None),
    "D-ls2": PaperRow(5.47, 25.7, None),
    "E-learned": PaperRow(4.92, 25.7, None),
    "big": PaperRow(4.33, 26.4, 213),
}

# What the paper says of the rows (section 6.2), as differences from base.
FINDINGS = {
    "A1": "One head is worse than eight.",
    "A32": "Too many heads are worse as well.",
    "B16": "A smaller d_k is worse.",
    "B32": "A smaller d_k is worse.",
    "C-n2": "Fewer layers are worse.",
    "C-n4": "Fewer layers are worse.",
    "C-n8": "More layers are better.",
    "C-d256": "A narrower model is worse.",
    "C-d1024": "A wider model is better.",
    "C-ff1024": "A narrower feed-forward layer is worse.",
    "C-ff4096": "A wider feed-forward layer is better.",
    "D-drop0": "Without dropout the model over-fits.",
    "D-drop2": "More dropout is no better.",
    "D-ls0": "Label smoothing costs perplexity and gains BLEU.",
    "D-ls2": "More label smoothing costs more perplexity.",
    "E-learned": "Learned positions are as good as sinusoids.",
    "big": "Bigger is better.",
}
