"""How well a model foresees given translations."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-probability of a token, un-smoothed.

    Attributes:
        per_token: a token is a piece of the model's vocabulary, the end of
            each sentence counted; no comparison with another vocabulary's.
        tokens: how many went in.
        left_out: pairs left out because a side is longer than the model
            takes.
    """

    per_token: float
    tokens: int
    left_out: int


def measure_perplexity(translator, evaluation_set):
    """Measures it over all references that are scored, each with its source.

    Args:
        translator: Translator or ExportedTranslator.
        evaluation_set: EvaluationSet.

    Returns:
        Perplexity, or None where every pair is too long.
    """
    pairs = [
        (evaluation_set.sources[place], reference)
        for place in evaluation_set.scored
        for reference in evaluation_set.references[place]
    ]
    sources, references = map(list, zip(*pairs))
    lengths = zip(translator.lengths(sources), translator.lengths(references))
    kept = [
        (*pair, target)
        for pair, (source, target) in zip(pairs, lengths)
        if source is not None and target is not None
    ]
    left_out = len(pairs) - len(kept)
    if not kept:
        return None
    sources, references, lengths = map(list, zip(*kept))
    scores = translator.score(sources, references)
    tokens = sum(lengths)
    return Perplexity(math.exp(-math.fsum(scores) / tokens), tokens, left_out)
