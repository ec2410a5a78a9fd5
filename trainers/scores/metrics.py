"""Corpus scores with signature and interval, by sacreBLEU.

Compound-split BLEU is the paper's metric: tokenised text in which "rich-text"
counts as the three tokens "rich ##AT##-##AT## text", after typographic quotes
were replaced by ASCII. The script of the authors' first code, get_ende_bleu.sh,
tokenised translations with Moses' tokenizer.perl, took tokenised references and
counted with multi-bleu.perl: no smoothing, case-sensitive. Here both sides are
tokenised by the sacreBLEU tokenizer of BLEU; the signature names it.
"""

import dataclasses
import re

import numpy as np
import sacrebleu

from trainers.scores import bleu_tokenizers

# Resampled sets of a 95 % interval (Koehn 2004), and sacreBLEU's seed.
BOOTSTRAP_SAMPLES = 1000
BOOTSTRAP_SEED = 12345


@dataclasses.dataclass(frozen=True)
class Score:
    """A corpus score, 0 to 100, and its signature.

    `signature` and `line` are in sacreBLEU's format. `reference_length` is the
    number of tokens of the references; 0 for chrF.
    """

    score: float
    signature: str
    line: str
    reference_length: int = 0

    def record(self):
        """Returns score and signature for scores.json."""
        return {"score": round(self.score, 4), "signature": self.signature}


@dataclasses.dataclass(frozen=True)
class Interval:
    """The 95 % interval of resampled scores, within 0 and 100.

    `bootstrap` has the number of samples and the seed in sacreBLEU's format.
    """

    low: float
    high: float
    bootstrap: str

    @classmethod
    def around(cls, mean, half, seed):
        """Returns the interval of sacreBLEU's mean and half width, clipped."""
        return cls(
            float(max(mean - half, 0.0)),
            float(min(mean + half, 100.0)),
            f"bs:{BOOTSTRAP_SAMPLES}|seed:{seed}",
        )

    def record(self):
        """Returns the interval for scores.json."""
        return {
            "confidence_95": [round(self.low, 4), round(self.high, 4)],
            "bootstrap": self.bootstrap,
        }


def score_bleu(hypotheses, evaluation_set, tokenize):
    """Returns the Score of case-sensitive BLEU, a translation for each source.

    `tokenize` is the name of sacreBLEU's tokenizer.
    """
    metric = bleu_tokenizers.make_bleu(tokenize)
    return _score(metric, hypotheses, evaluation_set)


def bleu_interval(hypotheses, evaluation_set, tokenize):
    """Returns the Interval of `score_bleu`, with the same arguments.

    The seed is 12345 unless SACREBLEU_SEED is set.
    """
    metric = bleu_tokenizers.make_bleu(tokenize)
    streams = evaluation_set.reference_streams()
    result = metric.corpus_score(
        hypotheses, streams, n_bootstrap=BOOTSTRAP_SAMPLES
    )
    return Interval.around(result._mean, result._ci, metric.seed)


def score_chrf(hypotheses, evaluation_set):
    """Returns the Score of chrF (Popović 2015)."""
    return _score(sacrebleu.CHRF(), hypotheses, evaluation_set)


def _score(metric, hypotheses, evaluation_set, signature_prefix=""):
    result = metric.corpus_score(hypotheses, evaluation_set.reference_streams())
    signature = signature_prefix + str(metric.get_signature())
    return Score(
        result.score,
        signature,
        result.format(signature=signature),
        getattr(result, "ref_len", 0),
    )


_QUOTES = str.maketrans(
    {**dict.fromkeys("„“”«»", '"'), **dict.fromkeys("‚‘’", "'")}
)
# ASCII, because the authors' Perl does not treat a no-break space as white
# space.
_HYPHEN = re.compile(r"(\S)-(\S)", re.ASCII)
_SPLIT = r"\1 ##AT##-##AT## \2"


def score_compound_split(hypotheses, evaluation_set, tokenize):
    """Returns the Score of compound-split BLEU; arguments of `score_bleu`."""
    metric = bleu_tokenizers.make_bleu(tokenize)

    def split(text):
        return _HYPHEN.sub(_SPLIT, metric.tokenizer(text.translate(_QUOTES)))

    references = tuple(
        tuple(map(split, group)) for group in evaluation_set.references
    )
    return _score(
        sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True),
        list(map(split, hypotheses)),
        dataclasses.replace(evaluation_set, references=references),
        f"quotes:plain|pretok:{metric.tokenizer_signature}|hyphens:split|",
    )


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """The difference in BLEU of two systems on the same sentences.

    `low` and `high` are the 2.5th and 97.5th percentile on resampled sentences,
    `bootstrap` has the number of samples and the seed.
    """

    difference: float
    low: float
    high: float
    bootstrap: str

    @property
    def line(self):
        """The difference as a line of text."""
        return (
            f"{self.difference:+.2f} BLEU, 95 % of resampled sets: "
            f"{self.low:+.2f} to {self.high:+.2f} (paired {self.bootstrap})"
        )


def bleu_difference(hypotheses, other_hypotheses, evaluation_set, tokenize):
    """Compares two systems by paired bootstrap resampling (Koehn 2004).

    sacreBLEU's paired test gives a p-value and no interval of the difference.
    Returns a PairedDifference, above 0 if `hypotheses` are better than
    `other_hypotheses`.
    """
    metric = bleu_tokenizers.make_bleu(tokenize)
    references = evaluation_set.reference_streams()
    counts = [
        np.array(metric._extract_corpus_statistics(texts, references))
        for texts in (hypotheses, other_hypotheses)
    ]

    def difference(indices):
        first, second = (
            metric._compute_score_from_stats(rows[indices].sum(0).tolist())
            for rows in counts
        )
        return first.score - second.score

    sentences = len(hypotheses)
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    resampled = [
        difference(generator.choice(sentences, size=sentences))
        for _ in range(BOOTSTRAP_SAMPLES)
    ]
    low, high = map(float, np.percentile(resampled, [2.5, 97.5]))
    how = f"bs:{BOOTSTRAP_SAMPLES}|seed:{BOOTSTRAP_SEED}"
    return PairedDifference(difference(np.arange(sentences)), low, high, how)
