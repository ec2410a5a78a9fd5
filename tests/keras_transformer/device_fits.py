"""An update of every public layer and model, to compare devices and floats."""

import keras
import numpy as np

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.public_calls import VOCABULARY, new_model

GENERATOR = np.random.default_rng(8)
# Two rows have as many target tokens as the other two, and as much weight: a
# mean of two devices' means is then the mean.
SOURCE = helpers.sentences(GENERATOR, [5, 2, 4, 3], 5, VOCABULARY)
LABELS = helpers.sentences(GENERATOR, [4, 2, 4, 2], 4, VOCABULARY)
INPUTS = {"source": SOURCE, "target": np.insert(LABELS[:, :-1], 0, 2, axis=1)}
WEIGHTS = np.array([0.5, 2.0, 0.5, 2.0], "float32")
# Rounding may turn a ReLU on or off, and its whole gradient with it.
SMOOTH = {"activation": "gelu"}
ARGUMENTS = {"intermediate_dim": 10, "num_heads": 2, "key_dim": 3, **SMOOTH}


def new_functional():
    """Returns a model of all public layers."""
    source, target = (
        keras.Input((None,), dtype="int32", name=name) for name in INPUTS
    )
    embedding = kt.SharedEmbedding(VOCABULARY, 12, mask_zero=True)
    memory = kt.SinusoidalPositionEncoding()(embedding(source))
    memory = kt.EncoderLayer(**ARGUMENTS)(memory)
    memory = kt.Encoder(1, **ARGUMENTS, normalize_first=True)(memory)
    states = kt.LearnedPositionEmbedding(9)(embedding(target))
    states = kt.DecoderLayer(**ARGUMENTS)(states, memory)
    states = kt.Decoder(1, **ARGUMENTS, attention_window=1)(states, memory)
    for layer in (
        kt.MultiHeadAttention(2, 3),
        kt.PositionwiseFeedForward(10, "gelu"),
    ):
        states = kt.ResidualConnection()(states, layer(states))
    logits = keras.layers.Dense(VOCABULARY)(states)
    model = keras.Model({"source": source, "target": target}, logits)
    helpers.randomise(model, seed=5)
    return model


# With a reduction each.
MODELS = {
    "mean_with_sample_weight": new_functional,
    "sum_over_batch_size": lambda: new_model(**SMOOTH),
    "sum": lambda: new_model(
        kt.ParserTransformer, positions="words", **helpers.WORD_IDS, **SMOOTH
    ),
}


def fit(reduction, **kwargs):
    """Returns the loss of a step of SGD and what it added to the weights."""
    model = MODELS[reduction]()
    model.compile(
        keras.optimizers.SGD(0.1),
        kt.LabelSmoothedCrossEntropy(reduction=reduction),
        **kwargs,
    )
    before = [helpers.to_numpy(each) for each in model.trainable_variables]
    fitted = model.fit(
        *(INPUTS, LABELS, 4),
        sample_weight=WEIGHTS,
        shuffle=False,
        verbose=0,
    )
    updates = [
        helpers.to_numpy(after) - value
        for after, value in zip(model.trainable_variables, before)
    ]
    return {"loss": np.array(fitted.history["loss"])} | {
        f"update/{index}": update for index, update in enumerate(updates)
    }


def fit_all(**kwargs):
    """Returns {reduction/what: array}; `kwargs` are for `compile`."""
    return {
        f"{reduction}/{what}": value
        for reduction in MODELS
        for what, value in fit(reduction, **kwargs).items()
    }


def assert_same(found, expected, tolerance):
    """Relative to the largest value of each array, or of any update."""
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        case = name.rpartition("/update")[0]
        largest = max(
            np.abs(value).max()
            for other, value in expected.items()
            if other.startswith(case or name)
        )
        error = np.abs(found[name] - wanted).max() / largest
        assert error < tolerance, (name, error)
