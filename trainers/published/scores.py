"""Published BLEU of whole models on the sets that we can recognise."""

import dataclasses

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
