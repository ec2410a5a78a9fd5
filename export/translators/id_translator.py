"""The model's part of every graph that translates: ids in, ids out."""

import dataclasses
import functools

import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding.alignment import RecordingDecoder
from keras_transformer.decoding.translate import decoder_of, output_limits
from keras_transformer.special_ids import END_ID, PAD_ID


class ForwardedCache(kt.Cache):
    """A cache that is written where it stands.

    TensorFlow's TensorScatterUpdate, which Keras calls, copies the whole
    cache on a CPU each time. This operation adds to the rows, which are zero
    before, and hands its input's memory on where nobody else reads it.
    """

    __slots__ = ()

    @staticmethod
    def scatter(cache, where, rows):
        """See `kt.Cache.scatter`."""
        return tf.raw_ops.ScatterNdNonAliasingAdd(
            input=cache, indices=where, updates=rows
        )


def one_graph(function, *signature, **options):
    """Returns a function that is traced at its first call and never again.

    Args:
        function: of tensors.
        *signature: tf.TensorSpec of each, or tuples of them.
        **options: of tf.function.

    Returns:
        A function of as many tensors or arrays.
    """
    graph = tf.function(
        function, input_signature=signature, autograph=False, **options
    )
    # A thread that waits for another's tracing is taken by tf.function for
    # one that traced as well, and a few of these for tracing without end.
    traced = functools.cache(graph.get_concrete_function)
    return lambda *arguments: traced()(*arguments)


class IdTranslator:
    """Search, alignment and scoring; called inside a graph of open shapes.

    Args:
        model: Transformer or Ensemble.
        beam_size: K; None for the config's.
        alpha: exponent of the length penalty; None for the config's.
        max_extra: an output has at most as many tokens as its source, the
            end id of one of them counted, + this; None for the config's.
        stop: when a sentence stops; None for SearchRules' own.
        min_length: pieces that an output has at least, the end id not
            counted; where the maximum is lower, the maximum holds. With 0 a
            model in doubt may find that saying nothing is likeliest.

    Attributes:
        config: the model's, with what was asked for in it.
        stop: when a sentence stops.
        memory_spec: TensorSpec of what `encode` returns.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        model,
        beam_size=None,
        alpha=None,
        max_extra=None,
        min_length=1,
        stop=None,
    ):
        asked = {
            "beam_size": beam_size,
            "alpha": alpha,
            "max_output_extra": max_extra,
        }
        self.config = dataclasses.replace(
            model.config,
            **{name: each for name, each in asked.items() if each is not None},
        )
        self.memory_spec = _memory_spec(model)
        self._model = model
        self._min_length = min_length
        self._rules = kt.search_rules(self.config)
        if stop is not None:
            self._rules = dataclasses.replace(self._rules, stop=stop)
        self.stop = self._rules.stop
        self._rules_of_best = dataclasses.replace(self._rules, n_best=1)

    def encode(self, source):
        """Returns the encoder's output of int32 [B, S] ids, [B, S, D]."""
        return self._model.encode(source)

    def best(self, source, memory):
        """As `search`, sooner: only the first translation is certain."""
        return self._search(source, memory, self._rules_of_best)

    def search(self, source, memory):
        """Finds the best translations.

        Args:
            source: int32 [B, S], each ending with the end id, then padding.
            memory: of `encode`.

        Returns:
            tokens, int32 [B, K, T], and scores, float32 [B, K], best first;
            -1e9 where there are fewer than K.
        """
        return self._search(source, memory, self._rules)

    def best_after(self, source, memory, prefix):
        """As `best`, of the translations that begin with what is given.

        Args:
            source: as for `search`.
            memory: likewise.
            prefix: int32 [B, P], 0 after each one's end: what translations
                begin with, as far as they may be so long.

        Returns:
            As `search`.
        """
        return self._search(source, memory, self._rules_of_best, prefix)

    def search_after(self, source, memory, prefix):
        """As `search`, likewise.

        Args:
            source: as for `best_after`.
            memory: likewise.
            prefix: likewise.

        Returns:
            As `search`.
        """
        return self._search(source, memory, self._rules, prefix)

    def decoder(self):
        """Returns what the compilable ones take, made once for all calls."""
        return decoder_of(self._model, self.config.beam_size)

    def compilable_best(self, source, decoder):
        """As `best`, in fixed shapes and by operations that XLA compiles.

        Args:
            source: as for `search`, of a fixed shape.
            decoder: of `decoder`.

        Returns:
            As `search`.
        """
        tokens, scores, _ = self._compilable(
            source, decoder, self._rules_of_best
        )
        return tokens, scores

    def compilable_search(self, source, decoder):
        """As `search`, likewise.

        Args:
            source: as for `compilable_best`.
            decoder: likewise.

        Returns:
            As `search`.
        """
        tokens, scores, _ = self._compilable(source, decoder, self._rules)
        return tokens, scores

    def align(self, source, memory):
        """Finds the best translation and what it attends to.

        Args:
            source: as for `search`.
            memory: as for `search`.

        Returns:
            tokens, int32 [B, T], without columns of padding; scores, float32
            [B]; and float32 [B, T, S], of `kt.alignments_of`.
        """
        tokens, scores, record = kt.translate_ids_and_attend(
            *self._searched(source, memory, self._rules_of_best)
        )
        return _aligned(trim(tokens[:, :1]), scores, record)

    def compilable_align(self, source, decoder):
        """As `align`, likewise.

        Args:
            source: as for `compilable_best`.
            decoder: likewise.

        Returns:
            As `align`, but with the columns of padding.
        """
        room = kt.output_room(source, self.config)
        recording = RecordingDecoder(
            self._model, decoder, self.config.beam_size, room
        )
        tokens, scores, state = self._compilable(
            source, recording, self._rules_of_best
        )
        return _aligned(tokens[:, :1], scores, recording.record(state))

    def _compilable(self, source, decoder, rules):
        room, demands = self._demands(source)
        return kt.translate_ids(
            self._model, source, room, demands, rules, decoder
        )

    def _search(self, *asked):
        tokens, scores, *_ = kt.translate_ids_in_segments(
            *self._searched(*asked)
        )
        return tokens, scores

    def _searched(self, source, memory, rules, prefix=()):
        """Returns the arguments of a search."""
        room, demands = self._demands(source, prefix)
        cache = ForwardedCache
        return self._model, source, room, demands, rules, memory, cache

    def _demands(self, source, prefix=()):
        room, longest = self._room(source)
        shortest = ()
        if self._min_length:
            # No constant: TensorFlow 2.21 cannot compile a third loop that
            # is handed one.
            shortest = tf.minimum(longest, self._min_length + 1)
        return room, kt.Demands(longest, shortest, prefix)

    def _room(self, source):
        room = kt.output_room(source, self.config)
        longest = output_limits(source, self.config.max_output_extra)
        return room, longest

    def sample(self, source, seeds, rules):
        """Draws translations; see `kt.sample_ids`."""
        room, longest = self._room(source)
        return kt.sample_ids(self._model, source, room, seeds, rules, longest)

    def score(self, source, target):
        """Returns the log-probabilities [B] of given ids."""
        return kt.score_ids(self._model, source, target)


def _aligned(best, scores, record):
    """The best hypotheses [B, 1, T] with their scores and alignments."""
    alignments = kt.alignments_of(record, best)
    return best[:, 0], scores[:, 0], alignments[:, 0]


def _memory_spec(model):
    if isinstance(model, kt.Ensemble):
        return tuple(map(_memory_spec, model.models))
    return tf.TensorSpec(
        [None, None, model.config.d_model], model.compute_dtype
    )


def cut(ids, limit):
    """Cuts ids to a limit; what is cut ends with the end id all the same.

    Args:
        ids: RaggedTensor int32 [B, None] or int32 [B, S] with padding.
        limit: the most ids that are kept, the end id counted.

    Returns:
        int32 [B, S'] with padding, S' at most `limit`, and boolean [B]: which
        were cut.
    """
    if isinstance(ids, tf.RaggedTensor):
        lengths = ids.row_lengths()
        kept = ids[:, :limit].to_tensor()
    else:
        places = tf.range(1, tf.shape(ids)[1] + 1)
        lengths = tf.reduce_max(tf.where(ids != PAD_ID, places, 0), axis=1)
        kept = ids[:, :limit]
    too_long = lengths > limit
    last = tf.range(tf.shape(kept)[1]) == limit - 1
    return tf.where(too_long[:, None] & last, END_ID, kept), too_long


def beginning(tokenizer, text, characters):
    """Cuts text to a number of characters, after making it readable.

    Args:
        tokenizer: Tokenizer.
        text: string [B].
        characters: the most that are kept.

    Returns:
        string [B], and boolean [B]: which were cut.
    """
    text = tokenizer.readable(text)
    too_long = tf.strings.length(text, unit="UTF8_CHAR") > characters
    return tf.strings.substr(text, 0, characters, unit="UTF8_CHAR"), too_long


def trim(tokens):
    """Drops the columns at the end of int32 [..., T] that are all padding."""
    used = tf.reduce_any(
        tf.reshape(tokens != PAD_ID, [-1, tf.shape(tokens)[-1]]), axis=0
    )
    return tokens[..., : tf.math.count_nonzero(used, dtype=tf.int32)]


def pieces_of(tokenizer, ids):
    """Returns the pieces of ids.

    Args:
        tokenizer: Tokenizer.
        ids: int32 [B, S].

    Returns:
        string [B, S]; "" for padding, "<unk>" for an id that the vocabulary
        lacks.
    """
    return tf.where(ids == PAD_ID, "", tokenizer.pieces(ids))
