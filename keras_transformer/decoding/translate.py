"""What one does with a Transformer: translate, score and align ids."""

from keras import ops

from keras_transformer.decoding.alignment import RecordingDecoder, alignment_of
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.decoding.beam_search import (
    Demands,
    segmented_beam_search,
    staged_beam_search,
)
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.decoding.rules import search_rules
from keras_transformer.layers.cache import Cache
from keras_transformer.layers.masks import padding_mask
from keras_transformer.loss import LabelSmoothedCrossEntropy
from keras_transformer.special_ids import BEGIN_ID, PAD_ID

# Steps until sentences leave: few enough that little unfilled cache is
# read, so many that copying the caches does not count.
SEGMENT = 8

# Steps there is room for in the stages before the last: most sentences end in
# them, and each is a loop more to compile.
_ROOMS = (32, 64)


def translate_ids(
    model, source, max_length, demands=None, rules=None, decoder=None
):
    """Translates a batch in a few loops of fixed shapes, as compilers like it.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each sentence ending with the end id, then
            padding.
        max_length: T, room for output tokens: a number or int32 scalar.
        demands: Demands, or only its `max_lengths`; by default each
            sentence's length without its end id + `config.max_output_extra`,
            and at most `max_length`.
        rules: SearchRules; by default the beam and penalty of the config.
        decoder: `decoder_of(model, beams)`, where it has been made already:
            outside of what is compiled it transposes a matrix only once. Or
            a RecordingDecoder of it, for alignments.

    Returns:
        BeamSearchResult: tokens [B, K, T], scores [B, K], and the decoder's
        state.
    """
    rules = rules or search_rules(model.config)
    decoder = decoder or decoder_of(model, rules.beam_size)
    rooms = _rooms(max_length)
    return staged_beam_search(
        decoder.step,
        decoder.start(source, rooms[0]),
        _demands(model.config, source, demands),
        rooms,
        rules,
        decoder.grow,
    )


def translate_ids_in_segments(
    model,
    source,
    max_length,
    demands=None,
    rules=None,
    memory=None,
    cache=Cache,
):
    """The same in a TensorFlow graph of open shapes, with less work.

    Finished sentences leave the batch, and caches grow as they fill.

    Args:
        model: as for `translate_ids`.
        source: int32 [B, S], both open.
        max_length: T, an int32 scalar tensor.
        demands: as for `translate_ids`.
        rules: as for `translate_ids`.
        memory: `model.encode(source)`, where it has been made already.
        cache: Cache, or a subclass of it.

    Returns:
        BeamSearchResult, without the state.
    """
    rules = rules or search_rules(model.config)
    decoder = decoder_of(model, rules.beam_size, cache)
    demands = _demands(model.config, source, demands)
    return _in_segments(decoder, source, max_length, demands, rules, memory)


def translate_ids_and_attend(
    model,
    source,
    max_length,
    demands=None,
    rules=None,
    memory=None,
    cache=Cache,
    layer=None,
):
    """The same, noting what each beam attends to on its way.

    Args:
        model: as for `translate_ids_in_segments`.
        source: likewise.
        max_length: likewise.
        demands: likewise.
        rules: likewise.
        memory: likewise.
        cache: likewise.
        layer: of `alignment_of`.

    Returns:
        BeamSearchResult; its state is the Record that `alignments_of` takes
        with its tokens.

    Raises:
        ValueError: there is no such layer.
    """
    rules = rules or search_rules(model.config)
    decoder = RecordingDecoder(
        model,
        decoder_of(model, rules.beam_size, cache),
        rules.beam_size,
        max_length,
        layer,
        cache,
    )
    demands = _demands(model.config, source, demands)
    return _in_segments(
        *(decoder, source, max_length, demands, rules, memory),
        remains=decoder.record,
    )


def output_limits(source, extra):
    """Returns int32 [B]: tokens of each source, end id aside, + `extra`.

    Never below 1, for a row of padding.
    """
    real = ops.cast(ops.not_equal(source, PAD_ID), "int32")
    return ops.maximum(ops.sum(real, axis=1) - 1 + extra, 1)


def output_room(source, config):
    """Returns T, the room that every output of a batch fits in.

    Args:
        source: int32 [B, S].
        config: TransformerConfig.

    Returns:
        S + `config.max_output_extra`, and no more than there are learned
        positions; a number, or an int32 scalar where S is not known.
    """
    room = ops.shape(source)[1] + config.max_output_extra
    if config.positions != "learned":
        return room
    smaller = min if isinstance(room, int) else ops.minimum
    return smaller(room, config.max_positions)


def decoder_of(model, beams, cache=Cache):
    """Returns what decodes so many beams of each sentence.

    Args:
        model: Transformer or Ensemble.
        beams: K.
        cache: Cache, or a subclass of it.
    """
    if isinstance(model, Ensemble):
        return model.beam_decoder(beams, cache)
    return BeamDecoder(model, beams, cache)


def _rooms(max_length):
    if not isinstance(max_length, int):
        return [max_length]
    return [room for room in _ROOMS if room < max_length] + [max_length]


def _in_segments(
    decoder, source, max_length, demands, rules, memory, **remains
):
    room = ops.minimum(SEGMENT, max_length)
    return segmented_beam_search(
        decoder.step,
        decoder.start(source, room, memory),
        demands,
        max_length,
        rules,
        SEGMENT,
        decoder.grow,
        **remains,
    )


def _demands(config, source, demands):
    if demands is not None:
        return demands
    return Demands(output_limits(source, config.max_output_extra))


def score_ids(model, source, target):
    """Returns the log-probability of each given translation.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.

    Returns:
        float32 [B]: the sum over the target's tokens, the end id counted.
    """
    logits = model({"source": source, "target": _shifted(target)})
    losses = LabelSmoothedCrossEntropy(0.0).token_losses(target, logits)
    return -ops.sum(losses.plain, axis=1)


def align_ids(model, source, target, layer=None):
    """Returns how much each target token attends to each source token.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.
        layer: of `alignment_of`.

    Returns:
        float32 [B, T, S], mean over the heads: row t is of the step that
        gives `target[:, t]`, sums to 1 and is 0 on padding.

    Raises:
        ValueError: there is no such layer.
    """
    return alignment_of(model, _cross_attention(model, source, target), layer)


def _cross_attention(model, source, target):
    """Returns what `alignment_of` takes."""
    if isinstance(model, Ensemble):
        return [_cross_attention(one, source, target) for one in model.models]
    shifted = _shifted(target)
    *_, weights = model.decoder(
        model.embed_target(shifted),
        model.encode(source),
        attention_mask=padding_mask(shifted),
        memory_mask=padding_mask(source),
        return_weights=True,
    )
    return weights


def attend_ids(model, source, target):
    """Returns what every head attends to while it gives a translation.

    Args:
        model: Transformer.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.

    Returns:
        As `Transformer.attention`. Row t of `decoder` and `cross` is of the
        step that gives `target[:, t]`; the keys of `decoder` are what the
        decoder was given, the begin id and `target[:, :-1]`.
    """
    return model.attention({"source": source, "target": _shifted(target)})


def _shifted(target):
    begin = ops.full_like(target[:, :1], BEGIN_ID)
    return ops.concatenate([begin, target[:, :-1]], axis=1)
