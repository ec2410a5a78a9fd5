"""An output layer of the pieces that a sentence's words may become.

A lexical shortlist (L'Hostis et al. 2016, arXiv 1610.00072): the words of a
sentence say which few hundred pieces its translation can have, and a step
multiplies by the rows of those alone. Each sentence has a list of its own, so
that its answer does not depend on its batch.
"""

import functools

import numpy as np
from keras import ops

from keras_transformer.config import PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.decoding.partial_output import (
    SPECIAL_IDS,
    OtherPieces,
    TransformerOfPieces,
    constant,
)

# Beyond what the pieces of any sentence add up to.
_CERTAIN = 1e6


class Shortlist:
    """Which target pieces each source piece may become, and how likely.

    A sentence's list has the pieces whose probabilities, added up over its
    source pieces, are highest: how often each is expected in the translation.
    The special ids are always in it.

    Args:
        targets: int32 [V_s, n] array: n target ids of each source id.
        probabilities: float32 [V_s, n] array, of each; 0 where there are
            fewer.
        everywhere: float32 [V] array, what is added of each target id for
            any sentence, such as how frequent it is; 0 of those that no
            translation had.
        size: L, pieces in a list.

    Attributes:
        size: as given, or V where that is less.
        vocabulary_size: V.
        rare: int array, the target ids that translations had and that are
            not among the L most frequent ones; the unknown piece stands for
            them and is one.
        never: int array, those that no translation had.
        weights: list of keras.Variable of the arrays.

    Raises:
        ValueError: the arrays do not go together, an id is not of the
            vocabulary, or the size has no room for more than special ids.
    """

    def __init__(self, targets, probabilities, everywhere, size):
        targets, probabilities, everywhere = map(
            np.asarray, (targets, probabilities, everywhere)
        )
        self.vocabulary_size = len(everywhere)
        if targets.ndim != 2 or targets.shape != probabilities.shape:
            raise ValueError(
                "targets and probabilities must be of one shape [V_s, n], not "
                f"{targets.shape} and {probabilities.shape}."
            )
        if targets.size and not (
            targets.min() >= 0 and targets.max() < self.vocabulary_size
        ):
            raise ValueError(
                "A shortlist's targets have ids from 0 to "
                f"{self.vocabulary_size - 1}."
            )
        if size <= len(SPECIAL_IDS):
            raise ValueError(
                f"size must be above {len(SPECIAL_IDS)}, not {size}."
            )
        self.size = min(size, self.vocabulary_size)
        everywhere = everywhere.astype("float32")
        everywhere[[*SPECIAL_IDS]] = _CERTAIN
        order = np.argsort(-everywhere, kind="stable")
        rare = order[self.size :]
        self.never = np.sort(rare[everywhere[rare] == 0])
        self.rare = np.append(rare[everywhere[rare] > 0], UNKNOWN_ID)
        self.weights = [
            constant("targets", targets, "int32"),
            constant("probabilities", probabilities),
            constant("everywhere", everywhere),
        ]

    def ids(self, source):
        """Returns the ids of each sentence's list, rising: int32 [B, L].

        Args:
            source: int32 [B, S], each ending with the end id, then padding.
        """
        targets, probabilities, everywhere = self.weights
        real = ops.cast(ops.not_equal(source, PAD_ID), "float32")
        added = ops.take(probabilities, source, axis=0) * real[..., None]
        target = ops.take(targets, source, axis=0)  # [B, S, n]
        batch = ops.shape(source)[0]
        rows = ops.arange(batch)[:, None, None]
        places = rows * self.vocabulary_size + target
        expected = ops.scatter(
            ops.reshape(places, (-1, 1)),
            ops.reshape(added, (-1,)),
            (batch * self.vocabulary_size,),
        )
        expected = ops.reshape(expected, (batch, self.vocabulary_size))
        _, ids = ops.top_k(expected + everywhere, self.size)
        return ops.sort(ops.cast(ids, "int32"), axis=-1)

    def to_ids(self, numbers, source):
        """Returns the ids of a search's numbers, in the same shape.

        Args:
            numbers: int32 [B, K, T].
            source: int32 [B, S], as the search was given it.
        """
        return _take_own(self.ids(source), numbers)

    def only(self, model):
        """Returns a model whose searches say a sentence's list alone.

        Args:
            model: Transformer, or Ensemble of several.

        Returns:
            TransformerOfPieces, or Ensemble of several.

        Raises:
            ValueError: a vocabulary has another size, or a list would have
                all pieces.
        """
        if isinstance(model, Ensemble):
            return Ensemble([*map(self.only, model.models)], model.mean)
        sizes = model.config.source_pieces, model.config.vocabulary_size
        own = self.weights[0].shape[0], self.vocabulary_size
        if sizes != own:
            raise ValueError(
                f"The shortlist is of {own[0]} source and {own[1]} target "
                f"pieces, and the model of {sizes[0]} and {sizes[1]}."
            )
        if self.size == self.vocabulary_size:
            raise ValueError(
                f"A shortlist of {self.size} pieces leaves none out of the "
                f"model's {self.vocabulary_size}; choose a smaller size."
            )
        return TransformerOfPieces(model, _OutputOfShortlist(model, self))


class _OutputOfShortlist:
    """The output layer, whose rows are another sentence's others.

    What a list leaves out is estimated once for all sentences: it is the rare
    pieces, but for those that a sentence asks for. Pieces that no translation
    had, such as those of the source's language alone, are unlike these: both
    kinds are estimated on their own.

    Args:
        model: Transformer.
        shortlist: Shortlist.

    Attributes:
        weights: list of keras.Variable: the shortlist's, and those of each
            kind's OtherPieces.
    """

    def __init__(self, model, shortlist):
        self._embedding = model.output_embedding
        self._shortlist = shortlist
        matrix = ops.convert_to_numpy(self._embedding.output_matrix())
        matrix = matrix.astype("float64")
        kinds = matrix[shortlist.rare], matrix[shortlist.never]
        self._kinds = [OtherPieces(rows) for rows in kinds if len(rows)]
        self.weights = [
            *shortlist.weights,
            *(weight for kind in self._kinds for weight in kind.weights),
        ]

    def kept(self, source):
        """Returns each sentence's ids and rows, int32 and float32 [B, D, L]."""
        ids = self._shortlist.ids(source)
        return ids, ops.transpose(self._embedding.output_matrix(ids), (0, 2, 1))

    def to_ids(self, numbers, kept):
        """See `TransformerOfPieces`."""
        return _take_own(kept[0], numbers)

    def logits(self, states, kept):
        """See `TransformerOfPieces`."""
        states = self._embedding.append_bias_input(ops.cast(states, "float32"))
        kinds = [kind.logit(states) for kind in self._kinds]
        others = functools.reduce(ops.logaddexp, kinds)
        unknown = ops.arange(self._shortlist.size) == UNKNOWN_ID
        return ops.where(unknown, others, ops.matmul(states, kept[1]))


def _take_own(ids, numbers):
    """Takes of int32 [B, L] what int32 [B, ...] numbers of a row say."""
    batch = ops.shape(numbers)[0]
    own = ops.take_along_axis(ids, ops.reshape(numbers, (batch, -1)), axis=1)
    return ops.reshape(own, ops.shape(numbers))
