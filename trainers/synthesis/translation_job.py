"""What a worker does with a shard of lines; only workers load the models."""

import dataclasses
import functools
import pathlib
import typing

from trainers.synthesis.filters import (
    Counts,
    is_unlikely,
    reason_after,
    reason_before,
)
from trainers.synthesis.models import ModelFiles, validate_unchanged
from trainers.synthesis.noise import add_noise
from trainers.synthesis.options import SynthesisOptions


class ShardResult(typing.NamedTuple):
    """What came of a shard of lines.

    Attributes:
        counts: Counts.
        pairs: list of (source, target), in the order of the lines.
    """

    counts: Counts
    pairs: list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class TranslationJob:
    """A function of lines that goes to the workers.

    Its result depends on the lines, their numbers, the models' files and the
    options alone, on machines of one kind.

    Attributes:
        models: tuple of ModelFiles, which decode together.
        options: SynthesisOptions.
    """

    models: tuple[ModelFiles, ...]
    options: SynthesisOptions

    def __call__(self, lines):
        """Translates lines and filters what comes of them.

        Args:
            lines: list of Line.

        Returns:
            ShardResult.

        Raises:
            InputError: a model has changed or cannot be loaded, or the options
                do not fit it.
        """
        return generate_pairs(_translator(self), lines, self.options)

    def load(self):
        """Loads the models, which are then not read again.

        Raises:
            InputError: a model has changed or cannot be loaded.
        """
        _translator(self)


def generate_pairs(translator, lines, options):
    """Makes pairs of lines.

    Args:
        translator: Translator.
        lines: list of Line.
        options: SynthesisOptions.

    Returns:
        ShardResult.
    """
    # Imported here: what starts workers needs no TensorFlow.
    from trainers.synthesis.generate import generate_translations

    reasons = dict.fromkeys((line.number for line in lines), "kept")
    pieces = translator.lengths([line.text for line in lines])
    asked = []
    for line, count in zip(lines, pieces):
        reason = reason_before(line.text, count, options)
        if reason:
            reasons[line.number] = reason
        else:
            asked.append(line)
    pairs = []
    if asked:
        said = generate_translations(translator, asked, options)
        for line, answer, reason in _judged(translator, asked, said, options):
            if reason:
                reasons[line.number] = reason
            else:
                pairs.append(_pair(line, answer, options))
    kinds = [*reasons.values()]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    return ShardResult(Counts(read=len(lines), **counts), pairs)


def _judged(translator, lines, said, options):
    """Yields line, answer, and why it is left out or None."""
    texts = [line.text for line in lines]
    ids = translator.given_ids(texts, said)
    scores = [None] * len(lines)
    if options.min_score is not None:
        scores = translator.score(texts, said)
    for line, answer, pair, score in zip(lines, said, ids, scores):
        pieces, answer_pieces = len(pair.source), len(pair.target)
        reason = reason_after(answer, pieces, answer_pieces, options)
        if not reason and score is not None:
            unlikely = is_unlikely(score, answer_pieces, options)
            reason = "unlikely" if unlikely else None
        yield line, answer, reason


def _pair(line, answer, options):
    sides = line.text, answer
    source, target = sides if options.way == "forward" else reversed(sides)
    return add_noise(source, line.number, options), target


@functools.lru_cache(maxsize=1)
def _translator(work):
    """Returns the Translator of a work, loaded once in a process."""
    import tensorflow as tf

    from export.translators.load import load_models
    from export.translators.translator import Translator

    options = work.options
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    for gpu in tf.config.list_physical_devices("GPU"):
        # By default the first worker would take all of its memory.
        tf.config.experimental.set_memory_growth(gpu, True)
    validate_unchanged(work.models)
    paths = [pathlib.Path(model.path) for model in work.models]
    return Translator(
        *load_models(paths),
        batch_tokens=options.batch_tokens,
        at_once=1,
        **options.search,
    )
