"""BLEU as the paper's authors counted it: compounds split at hyphens.

The paper's figures are of tokenised text in which "rich-text" counts as the
three tokens "rich ##AT##-##AT## text", as in the papers that it compares
itself with; typographic quotes were made plain before. That script of the
authors' first code, get_ende_bleu.sh, tokenised the translations with Moses'
tokenizer.perl, took references that were tokenised already, and counted with
multi-bleu.perl: no smoothing, case kept. Here translations and references are
treated alike, and the tokeniser is the one of sacreBLEU that BLEU itself is
counted with; the signature says which.
"""

import dataclasses
import re

import sacrebleu

from trainers import bleu_tokenizers
from trainers.scoring import score_with

_QUOTES = str.maketrans(
    {**dict.fromkeys("„“”«»", '"'), **dict.fromkeys("‚‘’", "'")}
)
# ASCII: a no-break space is no white space to the authors' perl.
_HYPHEN = re.compile(r"(\S)-(\S)", re.ASCII)
_SPLIT = r"\1 ##AT##-##AT## \2"


def score_compound_split(hypotheses, evaluation_set, tokenize):
    """Scores translations by compound-split tokenised BLEU.

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.
        tokenize: name of sacreBLEU's tokeniser.

    Returns:
        Score.
    """
    metric = bleu_tokenizers.metric(tokenize)

    def prepared(text):
        return _HYPHEN.sub(_SPLIT, metric.tokenizer(text.translate(_QUOTES)))

    split = dataclasses.replace(
        evaluation_set,
        references=tuple(
            tuple(map(prepared, group)) for group in evaluation_set.references
        ),
    )
    return score_with(
        sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True),
        list(map(prepared, hypotheses)),
        split,
        f"quotes:plain|pretok:{metric.tokenizer_signature}|hyphens:split|",
    )
