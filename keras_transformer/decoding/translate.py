"""What one does with a Transformer: translate, score and align ids."""

from keras import ops

from keras_transformer.config import BEGIN_ID, PAD_ID
from keras_transformer.decoding.alignment import RecordingDecoder
from keras_transformer.decoding.beam_search import (
    segmented_beam_search,
    staged_beam_search,
)
from keras_transformer.decoding.rules import Constraints, search_rules
from keras_transformer.layers.attention import KVCache
from keras_transformer.loss import LabelSmoothedCrossEntropy

# The most steps until sentences leave: few enough that little unfilled cache
# is read, so many that copying the caches does not count.
SEGMENT = 8

# Capacities of the stages before the last: most sentences end in them, and each
# is one more loop to compile.
_STAGES = (32, 64)


def translate_ids(
    model, source, max_length, constraints=None, rules=None, decoder=None
):
    """Translates a batch in a few loops of fixed shapes, for compilers.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each sentence ending with the end id, then
            padding.
        max_length: T, capacity for output tokens: a number or int32 scalar.
        constraints: Constraints, or only its `max_lengths`; by default each
            sentence's length without its end id + `config.max_output_extra`,
            and at most `max_length`.
        rules: SearchRules; by default the beam and penalty of the config.
        decoder: `model.beam_decoder(K)`, where it has been made already:
            outside of what is compiled it transposes a matrix only once. Or
            a RecordingDecoder of it, for alignments.

    Returns:
        BeamSearchResult: tokens [B, K, T], scores [B, K], and what remains
        of the decoder's state: a RecordingDecoder's Record, else nothing.
    """
    rules = rules or search_rules(model.config)
    decoder = decoder or model.beam_decoder(rules.beam_size)
    capacities = [max_length]
    if isinstance(max_length, int):
        capacities = [each for each in _STAGES if each < max_length]
        capacities.append(max_length)
    found = staged_beam_search(
        decoder.step,
        decoder.start(source, capacities[0]),
        _constraints(model.config, source, constraints),
        capacities,
        rules,
        decoder.grow,
    )
    return found._replace(state=decoder.remains(found.state))


def translate_ids_in_segments(
    model,
    source,
    max_length,
    constraints=None,
    rules=None,
    memory=None,
    cache=KVCache,
    decoder=None,
):
    """The same in a TensorFlow graph of open shapes, with less work.

    Finished sentences leave the batch, and caches grow as they fill.

    Args:
        model: as for `translate_ids`.
        source: int32 [B, S], both open.
        max_length: T, an int32 scalar tensor.
        constraints: as for `translate_ids`.
        rules: as for `translate_ids`.
        memory: `model.encode(source)`, where it has been made already.
        cache: KVCache, or a subclass of it, for `model.beam_decoder`.
        decoder: as for `translate_ids`.

    Returns:
        As `translate_ids`.
    """
    rules = rules or search_rules(model.config)
    decoder = decoder or model.beam_decoder(rules.beam_size, cache)
    return segmented_beam_search(
        decoder.step,
        decoder.start(source, ops.minimum(SEGMENT, max_length), memory),
        _constraints(model.config, source, constraints),
        max_length,
        rules,
        SEGMENT,
        decoder.grow,
        decoder.remains,
    )


def translate_ids_and_attend(
    model,
    source,
    max_length,
    constraints=None,
    rules=None,
    memory=None,
    cache=KVCache,
    layer=None,
):
    """As `translate_ids_in_segments`, noting what each beam attends to.

    Args:
        model: as for `translate_ids_in_segments`.
        source: as for `translate_ids_in_segments`.
        max_length: as for `translate_ids_in_segments`.
        constraints: as for `translate_ids_in_segments`.
        rules: as for `translate_ids_in_segments`.
        memory: as for `translate_ids_in_segments`.
        cache: as for `translate_ids_in_segments`.
        layer: of `Transformer.alignment`.

    Returns:
        BeamSearchResult; its state is the Record that `alignments_of` takes
        with its tokens.

    Raises:
        ValueError: there is no such layer.
    """
    rules = rules or search_rules(model.config)
    decoder = model.beam_decoder(rules.beam_size, cache)
    return translate_ids_in_segments(
        *(model, source, max_length, constraints, rules, memory),
        decoder=RecordingDecoder(decoder, max_length, layer),
    )


def output_limits(source, extra):
    """Returns int32 [B]: tokens of each source, end id aside, + `extra`.

    Never below 1, for a row of padding.
    """
    real = ops.cast(ops.not_equal(source, PAD_ID), "int32")
    return ops.maximum(ops.sum(real, axis=1) - 1 + extra, 1)


def output_capacity(source, config):
    """Returns T, the capacity that every output of a batch fits in.

    Args:
        source: int32 [B, S].
        config: TransformerConfig.

    Returns:
        S + `config.max_output_extra`, and no more than there are learned
        positions; a number, or an int32 scalar where S is not known.
    """
    capacity = ops.shape(source)[1] + config.max_output_extra
    if config.positions != "learned":
        return capacity
    smaller = min if isinstance(capacity, int) else ops.minimum
    return smaller(capacity, config.max_positions)


def _constraints(config, source, constraints):
    if constraints is not None:
        return constraints
    return Constraints(output_limits(source, config.max_output_extra))


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

    For aligning a translation that a person made, or that another program
    made: a bitext, say.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.
        layer: of `Transformer.alignment`.

    Returns:
        float32 [B, T, S], mean over the heads: row t is of the step that
        gives `target[:, t]`, sums to 1 and is 0 on padding.

    Raises:
        ValueError: there is no such layer.
    """
    weights = attend_ids(model, source, target)["cross"]
    return model.alignment(weights, layer)


def attend_ids(model, source, target):
    """Returns what every head attends to while it gives a translation.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.

    Returns:
        As `Transformer.attention` or `Ensemble.attention`. Row t of `decoder`
        and `cross` is of the step that gives `target[:, t]`; the keys of
        `decoder` are what the decoder was given, the begin id and
        `target[:, :-1]`.
    """
    return model.attention({"source": source, "target": _shifted(target)})


def _shifted(target):
    begin = ops.full_like(target[:, :1], BEGIN_ID)
    return ops.concatenate([begin, target[:, :-1]], axis=1)
