"""The whole model in NumPy float64, from the parts in `reference`."""

import math

import numpy as np

from tests.keras_transformer import helpers, reference

END = 3


def _table(config, weights, side, name="embeddings"):
    shared = config.share_embeddings
    if shared == "all" or (shared == "target-softmax" and side == "output"):
        side = "target"
    return weights[f"{side}_embedding/{name}"]


def _embed(config, weights, ids, positions, side, training, next_words=0.0):
    table = _table(config, weights, side)
    kept = 1.0 - config.dropout if training else 1.0
    words = _words(config, ids, positions, side)
    rows = []
    for number, position, word in zip(ids, positions, words):
        if config.positions == "learned":
            place = weights[f"{side}_positions/embeddings"][position]
        elif config.uses_word_positions:
            halves = [
                reference.sinusoid(each, config.d_model // 2)
                for each in (position, word)
            ]
            place = np.concatenate(halves)
        else:
            place = reference.sinusoid(
                position, config.d_model, config.sinusoid_rates
            )
        rows.append(table[number] * math.sqrt(config.d_model) + place)
    return kept * (np.stack(rows) + next_words)


def _words(config, ids, positions, side):
    """The word of each source token, or the words emitted so far."""
    words, word = [], 0
    for number, position in zip(ids, positions):
        if position == 0:
            word = {"source": -1, "target": 0}[side]
        word += _is_new_word(config, number, side)
        words.append(max(word, 0))
    return np.array(words)


def _next_words(memory, words, emitted, may_look):
    """For each target token the mean of the next word's states."""
    rows = np.zeros((len(emitted), memory.shape[1]))
    for row, number in enumerate(emitted):
        its = memory[(words == number) & may_look[row]]
        if len(its):
            rows[row] = its.mean(axis=0)
    return rows


def _is_new_word(config, number, side):
    """An end is the word after the last, where targets wait for it."""
    if side == "target":
        return number >= config.first_target_word_id
    return number >= config.first_source_word_id or number == END


def run_pair(
    config,
    weights,
    source,
    target,
    source_segments=None,
    target_segments=None,
    source_positions=None,
    target_positions=None,
    training=False,
) -> reference.Outputs:
    """One row; in `training`, dropout multiplies by 1 - its probability."""
    if source_segments is None:
        source_segments = np.zeros(len(source), int)
        target_segments = np.zeros(len(target), int)
    if source_positions is None:
        source_positions = np.arange(len(source))
        target_positions = np.arange(len(target))
    window = config.attention_window
    memory, encoder_seen = reference.encoder(
        config,
        reference.below(weights, "encoder"),
        _embed(config, weights, source, source_positions, "source", training),
        reference.may_attend(source, source_segments, source_segments, window),
        training,
    )
    may_look = reference.may_attend(source, target_segments, source_segments)
    next_words = 0.0
    if config.positions == "next-word":
        next_words = _next_words(
            memory,
            _words(config, source, source_positions, "source"),
            _words(config, target, target_positions, "target"),
            may_look,
        )
    states, decoder_seen, crossed = reference.decoder(
        config,
        reference.below(weights, "decoder"),
        _embed(
            config,
            weights,
            target,
            target_positions,
            "target",
            training,
            next_words,
        ),
        memory,
        reference.may_attend(
            target, target_segments, target_segments, window, causal=True
        ),
        may_look,
        training,
    )
    logits = states @ _table(config, weights, "output").T
    if config.output_bias:
        logits = logits + _table(config, weights, "output", "bias")
    return reference.Outputs(logits, encoder_seen, decoder_seen, crossed)


def run_batch(config, weights, inputs, training=False) -> list:
    """One `Outputs` for each row of the model's dict of inputs."""
    rows = len(inputs["source"])
    return [
        run_pair(
            config,
            weights,
            **{name: ids[row] for name, ids in inputs.items()},
            training=training,
        )
        for row in range(rows)
    ]


def logits(config, weights, inputs) -> np.ndarray:
    """[B, T, V]."""
    return np.stack([o.logits for o in run_batch(config, weights, inputs)])


def assert_equal(model, inputs):
    """Compares the logits and attention of all tokens with the reference."""
    weights = helpers.weights_by_name(model)
    expected = run_batch(model.config, weights, inputs)
    real = inputs["target"] != 0
    wanted = np.stack([each.logits for each in expected])[real]
    found = helpers.logits(model, inputs)[real]
    assert helpers.relative_error(found, wanted) <= 1e-5
    queries = {"encoder": "source", "decoder": "target", "cross": "target"}
    for kind, layers in model.attention(inputs).items():
        real = inputs[queries[kind]] != 0
        for number, layer in enumerate(layers):
            wanted = np.stack([getattr(row, kind)[number] for row in expected])
            wanted = np.where(real[:, None, :, None], wanted, 0.0)
            found = helpers.to_numpy(layer)
            assert helpers.relative_error(found, wanted) <= 1e-5
            # Nothing of another pair, and no padding.
            assert (found[wanted == 0] == 0).all()
