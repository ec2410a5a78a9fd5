"""BLEU as the paper's authors counted it: compounds split at hyphens.

The paper's figures are of tokenised text in which "rich-text" counts as the
three tokens "rich ##AT##-##AT## text", as in the papers that it compares
itself with; typographic quotes were made plain before. That script of the
authors' first code, get_ende_bleu.sh, tokenised the translations with Moses'
tokenizer.perl, took references that were tokenised already, and counted with
multi-bleu.perl: no smoothing, case kept. Here translations and references are
treated alike, and the tokeniser is sacreBLEU's 13a (mteval-v13a), or none
where the text is tokenised already. The signature says which.
"""

import dataclasses
import re

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from trainers.scoring import score_with

_QUOTES = str.maketrans(
    {**dict.fromkeys("„“”«»", '"'), **dict.fromkeys("‚‘’", "'")}
)
# ASCII: a no-break space is no white space to the authors' perl.
_HYPHEN = re.compile(r"(\S)-(\S)", re.ASCII)
_SPLIT = r"\1 ##AT##-##AT## \2"


def score_compound_split(hypotheses, evaluation_set, tokenized=False):
    """Scores translations by compound-split tokenised BLEU.

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.
        tokenized: whether the text is tokenised already.

    Returns:
        Score.
    """
    tokenize = _as_it_stands if tokenized else Tokenizer13a()

    def prepared(text):
        return _HYPHEN.sub(_SPLIT, tokenize(text.translate(_QUOTES)))

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
        f"quotes:plain|pretok:{'none' if tokenized else '13a'}|hyphens:split|",
    )


def _as_it_stands(text):
    return text
