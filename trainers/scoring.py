"""BLEU that says which BLEU it is."""

import dataclasses
import datetime

import sacrebleu


@dataclasses.dataclass(frozen=True)
class BleuScore:
    """A sacreBLEU score with how it was made.

    Attributes:
        score: 0 to 100.
        signature: sacreBLEU's own.
        line: score and its n-gram parts in sacreBLEU's format.
    """

    score: float
    signature: str
    line: str


def score_bleu(hypotheses, evaluation_set):
    """Scores translations with sacreBLEU (tokenizer 13a, case kept).

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.

    Returns:
        BleuScore.
    """
    metric = sacrebleu.BLEU()
    result = metric.corpus_score(hypotheses, evaluation_set.reference_streams())
    signature = str(metric.get_signature())
    return BleuScore(
        result.score, signature, result.format(signature=signature)
    )


def score_record(bleu, config, split, step, dataset, sentences):
    """Returns what scores.json keeps of a score.

    Args:
        bleu: BleuScore.
        config: TransformerConfig it was decoded with.
        split: name of the split.
        step: updates the model was trained for.
        dataset: name of the data set.
        sentences: number of sources.
    """
    return {
        "metric": "BLEU",
        "score": round(bleu.score, 4),
        "signature": bleu.signature,
        "dataset": dataset,
        "split": split,
        "sentences": sentences,
        "beam_size": config.beam_size,
        "alpha": config.alpha,
        "length_penalty": config.length_penalty,
        "step": step,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
