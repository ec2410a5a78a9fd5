"""Every public name: under each float type, and with ids out of range."""

import ast
import functools
import inspect
import pathlib

import keras
import numpy as np
import pytest
from keras import ops, tree

import keras_transformer as kt
from keras_transformer.decoding.target_language import with_target_language
from keras_transformer.loss import linear_cross_entropy
from tests.keras_transformer import helpers
from tests.keras_transformer.public_calls import (
    INPUTS,
    LENGTHS,
    SOURCE,
    TARGET,
    VOCABULARY,
    new_model,
    new_shortlist,
    public_calls,
    search,
)

BACKEND = keras.backend.backend()
# JAX has float64 only on demand, which its own tests do not ask for.
WIDEST = "float32" if BACKEND == "jax" else "float64"
slow = pytest.mark.slow
CALLS = public_calls()


@functools.cache
def answers(floatx):
    """Returns {name: the arrays of its call} with this float type."""
    keras.config.set_floatx(floatx)
    try:
        return {
            name: [helpers.to_numpy(each) for each in tree.flatten(call())]
            for name, call in CALLS.items()
        }
    finally:
        keras.config.set_floatx("float32")


def test_every_public_name_is_called():
    constants = {name for name in kt.__all__ if isinstance(vars(kt)[name], int)}
    assert CALLS.keys() == set(kt.__all__) - constants


@slow
@pytest.mark.parametrize("floatx", ["float16", "bfloat16", "float32"])
def test_floatx_changes_precision_alone(floatx):
    expected, found = answers(WIDEST), answers(floatx)
    for name, arrays in expected.items():
        for one, other in zip(found[name], arrays, strict=True):
            allowed = 0.05 * max(1.0, np.abs(other).max(initial=0.0))
            np.testing.assert_allclose(one, other, 0, allowed, err_msg=name)


def test_creators_of_tensors_name_their_dtype():
    """Without, integers get the width of floatx."""
    creators = {"arange": 4, "zeros": 2, "ones": 2, "full": 3, "eye": 4}
    for path in pathlib.Path(kt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            function = ast.unparse(node.func)
            least = creators.get(function.removeprefix("ops."))
            if not function.startswith("ops.") or least is None:
                continue
            named = {keyword.arg for keyword in node.keywords}
            has_dtype = "dtype" in named or len(node.args) >= least
            assert has_dtype, f"{path.name}:{node.lineno}: {function}"


# Ids of the second of three sentences, in turn.
PLACES = {"source": (1, 1), "target": (1, 1), "last": (1, 3)}
IDS = {"source": SOURCE, "target": TARGET}
FIXED = kt.OutputVocabulary.fixed(range(40), VOCABULARY)


def new_id_calls():
    """Returns {name: function of ids} to floats or, of int type, ids."""
    model, learned = new_model(), new_model(positions="learned")
    language, list_ = with_target_language(learned), new_shortlist()

    def far(ids):
        return ops.where(ids["target"] > 95, 20_000, ids["target"])

    def terms(ids):
        part = np.arange(VOCABULARY) < 4
        edges = kt.WordEdges(part, part, part)
        constraints = kt.Constraints(
            LENGTHS + 2, terms=ids["target"][:, None, None]
        )
        return search(constraints, model, {"word_edges": edges}).scores

    def inputs(ids):
        target = ops.cast(ids["target"], "int32")
        return {
            "source": ids["source"],
            "target": ops.pad(target[:, :-1], ((0, 0), (1, 0)), "constant", 2),
        }

    return {
        "Transformer": lambda ids: model(inputs(ids)),
        "ParserTransformer": lambda ids: new_parser()(inputs(ids)),
        "positions": lambda ids: learned.embed_target(TARGET, far(ids)),
        "sinusoids": lambda ids: model.embed_target(TARGET, far(ids)),
        "loss": lambda ids: kt.LabelSmoothedCrossEntropy(reduction="none")(
            ids["target"], model(INPUTS)
        ),
        "linear loss": lambda ids: linear_cross_entropy(
            model.hidden_states(INPUTS)[1],
            model.output_embedding.embeddings,
            ids["target"],
            0.1,
        ),
        "score_ids": lambda ids: kt.score_ids(model, *ids.values()),
        "token_log_probs": lambda ids: kt.token_log_probs(model, *ids.values()),
        "force_align": lambda ids: kt.force_align(model, *ids.values()),
        "attention_scores": lambda ids: kt.attention_scores(
            model, *ids.values()
        ),
        "translate_ids": lambda ids: (
            search(None, model, source=ids["source"]).scores
        ),
        "prefix": lambda ids: (
            search(
                kt.Constraints(LENGTHS + 2, prefix=ids["target"]),
                model,
                # The whole prefix is read.
                max_length=6,
            ).scores
        ),
        "terms": terms,
        "language": lambda ids: (
            search(
                None,
                language,
                source=ops.concatenate(
                    [ops.cast(ids["target"], "int32")[:, 1:2], SOURCE], 1
                ),
            ).scores
        ),
        "sample_ids": lambda ids: (
            kt.sample_ids(model, ids["source"], 4, LENGTHS).log_probs
        ),
        "fixed subset": lambda ids: FIXED.to_vocabulary_ids(far(ids)),
        "shortlist": lambda ids: list_.to_vocabulary_ids(
            ops.zeros((3, 2), "int32"), ids["source"]
        ),
    }


@functools.cache
def new_parser():
    return new_model(
        kt.ParserTransformer, positions="words", **helpers.WORD_IDS
    )


def test_functions_of_ids_are_called_with_wrong_ones():
    functions = {
        name for name, each in vars(kt).items() if inspect.isfunction(each)
    }
    # Its ids are those of a step.
    assert functions - {"beam_search"} <= new_id_calls().keys()


def with_wrong(name, wrong):
    """Returns the ids, one of which is out of range."""
    row, column = PLACES[name]
    array = "target" if name == "last" else name
    ids = {key: value.copy() for key, value in IDS.items()}
    ids[array][row, column] = wrong
    return ids


SEARCHES = "translate_ids", "prefix", "terms", "language", "sample_ids"
# Labels below 0 are ignored, as padding is.
READS = {
    "source": {
        *("Transformer", "ParserTransformer", "score_ids", "token_log_probs"),
        *("force_align", "attention_scores", "translate_ids", "sample_ids"),
        "shortlist",
    },
    "target": {
        *("Transformer", "ParserTransformer", "positions", "sinusoids"),
        *("loss", "linear loss", "score_ids", "token_log_probs"),
        *("force_align", "attention_scores", "prefix", "terms", "language"),
        "fixed subset",
    },
    "last": {
        *("positions", "sinusoids", "loss", "linear loss", "score_ids"),
        *("token_log_probs", "force_align", "attention_scores", "prefix"),
        *("terms", "fixed subset"),
    },
}


def test_known_ids_out_of_range_raise():
    calls = new_id_calls()
    for place, readers in READS.items():
        ids = with_wrong(place, VOCABULARY)
        for reader in readers:
            with pytest.raises(ValueError, match="must be from 0 to"):
                calls[reader](ids)


def compiled(function):
    """Compiles a function by XLA."""
    if BACKEND == "jax":
        return helpers.jitted(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=True, autograph=False)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch raises errors")
@pytest.mark.parametrize(
    "searches",
    # TensorFlow takes a minute to compile these.
    [False, pytest.param(True, marks=[slow] * (BACKEND != "jax"))],
)
def test_unknown_ids_out_of_range_give_nan_under_xla(searches):
    """Never a number, and only in their own sentence; no id of subsets."""
    calls = {
        name: call
        for name, call in new_id_calls().items()
        if (name in SEARCHES) == searches
    }
    run = compiled(lambda ids: {name: f(ids) for name, f in calls.items()})
    for reader, arrays in broken_rows(run(IDS)).items():
        assert not any(map(np.any, arrays)), reader
    for place, readers in READS.items():
        found = broken_rows(run(with_wrong(place, VOCABULARY)))
        for reader, arrays in found.items():
            is_broken = any(map(np.any, arrays))
            assert is_broken == (reader in readers), (place, reader)
            for rows in arrays:
                assert not (rows.size > 1 and rows[[0, 2]].any()), reader


def broken_rows(outputs):
    """Returns {name: [whether each row has NaN or, of ids, an id below 0]}."""

    def find(output):
        values = helpers.to_numpy(output)
        is_broken = ~np.isfinite(values)
        if "int" in str(output.dtype):
            is_broken = values < 0
        return is_broken.reshape(len(values) if values.ndim else 1, -1).any(1)

    return {
        name: [*map(find, tree.flatten(each))] for name, each in outputs.items()
    }


def test_class_weights_are_refused():
    """Keras takes the column of each row's highest label for its class."""
    model = new_model()
    model.compile("sgd", kt.LabelSmoothedCrossEntropy())
    for train_on in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match="sample_weight"):
            train_on(INPUTS, TARGET, class_weight={4: 2.0})
