"""The model's part of every graph that translates: ids in, ids out."""

import dataclasses
import typing

import tensorflow as tf

import keras_transformer as kt
from export.translators.truncation import trim
from keras_transformer.decoding.alignment import gather_alignments
from keras_transformer.decoding.translate import (
    output_capacity,
    output_limits,
)
from keras_transformer.fields import MAX_EXTRA

_IDS = tf.TensorSpec([None, None], tf.int32)


class Found(typing.NamedTuple):
    """What a search found.

    Attributes:
        tokens: int32 [B, K, T], best first; with alignments [B, 1, T].
        scores: float32 [B, K], -1e9 where there are fewer than K; with
            alignments [B, 1].
        alignments: float32 [B, 1, T, S], of `gather_alignments`, or ().
    """

    tokens: typing.Any
    scores: typing.Any
    alignments: typing.Any = ()


class IdTranslator:
    """Search, alignment and scoring; called inside a graph.

    Args:
        model: Transformer or Ensemble.
        beam_size: K; None for the config's.
        alpha: exponent of the length penalty; None for the config's.
        max_output_extra: an output has at most as many tokens as its source,
            the end id of one of them counted, + this; None for the config's.
        stop: when a sentence stops; None for the config's.
        max_output_tokens: tokens that an output has at most, the end id
            counted, whatever its source; None for no such limit.
        min_length: pieces that an output has at least, the end id not
            counted; where the maximum is lower, the maximum holds. With 0 a
            model in doubt may find that saying nothing is likeliest.
        target_pieces: ids of the only tokens that are generated, in a search
            without a prefix; see `kt.OutputVocabulary`. None for all.
            `score` and `sample` are the whole model's.
        shortlist: kt.OutputVocabulary that selects the tokens of each
            sentence, instead of `target_pieces`; None for all.

    Attributes:
        config: the model's, with what was asked for in it.
        stop: when a sentence stops.
        target_pieces: list of the ids, filled up; None for all.
        shortlist: as given.
        searched: the model, or that of the pieces alone.

    Raises:
        ValueError: a number is out of range, or there are both target pieces
            and a shortlist.
    """

    def __init__(
        self,
        model,
        beam_size=None,
        alpha=None,
        max_output_extra=None,
        min_length=1,
        stop=None,
        max_output_tokens=None,
        target_pieces=None,
        shortlist=None,
    ):
        asked = {
            "beam_size": beam_size,
            "alpha": alpha,
            "max_output_extra": max_output_extra,
        }
        self.config = dataclasses.replace(
            model.config,
            **{name: each for name, each in asked.items() if each is not None},
        )
        for name, least, value in (
            ("min_length", 0, min_length),
            ("max_output_tokens", 1, max_output_tokens),
        ):
            if value is not None and not least <= value <= MAX_EXTRA:
                raise ValueError(
                    f"{name} must be from {least} to {MAX_EXTRA:,}, not "
                    f"{value}."
                )
        self._model = model
        self._min_length = min_length
        self._most = max_output_tokens
        self._search_config = kt.BeamSearchConfig.from_config(self.config)
        if stop is not None:
            self._search_config = dataclasses.replace(
                self._search_config, stop_criterion=stop
            )
        self.stop = self._search_config.stop_criterion
        if target_pieces is not None and shortlist is not None:
            raise ValueError("A search has target_pieces or a shortlist.")
        self.target_pieces, self.shortlist = None, shortlist
        if target_pieces is not None:
            fixed = kt.OutputVocabulary.fixed(
                target_pieces, self.config.vocabulary_size
            )
            self.target_pieces = fixed.ids.tolist()
            self._output_vocabulary = fixed
        else:
            self._output_vocabulary = shortlist
        self.searched = model
        if self._output_vocabulary is not None:
            self.searched = self._output_vocabulary.restrict(model)
        # A function of its own, which all graphs of this model share.
        self._encode = tf.function(
            model.encode, input_signature=[_IDS], autograph=False
        )

    def search(self, source, prefix=(), n_best=1, align=False, decoder=None):
        """Finds the best translations.

        Args:
            source: int32 [B, S], each ending with the end id, then padding;
                both lengths open, unless a decoder is given.
            prefix: int32 [B, P], 0 after each one's end: what translations
                begin with, as far as they may be so long; () for nothing.
            n_best: how many translations are certain when a sentence stops;
                1 is the fastest.
            align: whether the best one's alignment is wanted as well.
            decoder: of `new_decoder`: the search then runs in fixed shapes
                and by operations that XLA compiles.

        Returns:
            Found. Without a decoder, of alignments the columns of padding are
            left out.

        Raises:
            ValueError: there is a prefix, which may have any piece, and only
                some pieces are said.
        """
        if self.searched is not self._model and not isinstance(prefix, tuple):
            raise ValueError("A search of some pieces takes no prefix.")
        shrink_batch = decoder is None
        tokens, scores, trace = kt.translate_ids(
            self.searched,
            source,
            None,
            self._constraints(source, prefix),
            dataclasses.replace(self._search_config, n_best=n_best),
            shrink_batch=shrink_batch,
            trace_alignments=align,
            decoder=decoder,
            memory=self._encode(source) if shrink_batch else None,
            cache=ForwardedCache,
        )
        if not align:
            return Found(self._to_vocabulary_ids(tokens, source), scores)
        best = trim(tokens[:, :1]) if shrink_batch else tokens[:, :1]
        alignments = gather_alignments(trace, best)
        return Found(
            self._to_vocabulary_ids(best, source), scores[:, :1], alignments
        )

    def new_decoder(self):
        """Returns a decoder for `search`, made once for all calls."""
        return self.searched.beam_decoder(self.config.beam_size)

    def sample(self, source, seeds, rules):
        """Draws translations; see `kt.sample_ids`."""
        return kt.sample_ids(
            self._model,
            source,
            output_capacity(source, self.config),
            seeds,
            rules,
            output_limits(source, self.config.max_output_extra),
        )

    def score(self, source, target):
        """Returns the log-probabilities [B] of given ids."""
        return kt.score_ids(self._model, source, target)

    def _constraints(self, source, prefix):
        longest = output_limits(source, self.config.max_output_extra)
        if self._most is not None:
            longest = tf.minimum(longest, self._most)
        shortest = ()
        if self._min_length:
            # No constant: TensorFlow 2.21 cannot compile a third loop that
            # is handed one.
            shortest = tf.minimum(longest, self._min_length + 1)
        return kt.Constraints(longest, shortest, prefix)

    def _to_vocabulary_ids(self, tokens, source):
        if self._output_vocabulary is None:
            return tokens
        return self._output_vocabulary.to_vocabulary_ids(tokens, source)


class ForwardedCache(kt.KVCache):
    """The decoder's cache, written in place.

    TensorFlow's TensorScatterUpdate, which Keras calls, copies the whole
    cache on a CPU each time. This operation adds to the rows, which are zero
    before, and hands its input's memory on where nobody else reads it.
    """

    __slots__ = ()

    @staticmethod
    def scatter(cache, where, rows):
        """See `kt.KVCache.scatter`."""
        return tf.raw_ops.ScatterNdNonAliasingAdd(
            input=cache, indices=where, updates=rows
        )

    @staticmethod
    def replace(cache, where, rows):
        """See `kt.KVCache.replace`."""
        # One addition of the difference would round.
        before = tf.gather_nd(cache, where)
        emptied = ForwardedCache.scatter(cache, where, -before)
        return ForwardedCache.scatter(emptied, where, rows)
