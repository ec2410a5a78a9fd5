"""A call of each public name, for walks over floats, compilers and devices."""

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer.parsing.tree_grammar import TreeGrammar
from tests.keras_transformer import helpers
from tests.keras_transformer.layers.layer_samples import LAYERS

SOURCE = np.array([[4, 8, 5, 9, 3], [7, 6, 3, 0, 0], [5, 3, 0, 0, 0]], "int32")
TARGET = np.array([[9, 7, 3, 0], [8, 5, 6, 3], [4, 3, 0, 0]], "int32")
INPUTS = {"source": SOURCE, "target": np.insert(TARGET[:, :-1], 0, 2, axis=1)}
LENGTHS = np.array([3, 4, 3], "int32")
# Every table of Keras' integers: more than one group of logits, and buckets.
VOCABULARY = 96
# Of the source vocabulary, targets of each id.
TARGETS = np.arange(2 * VOCABULARY).reshape(VOCABULARY, 2) % VOCABULARY


def new_model(cls=kt.Transformer, **changes):
    changes = {"vocabulary_size": VOCABULARY, "num_layers": 1, **changes}
    model = cls(helpers.config(beam_size=2, max_extra_tokens=2, **changes))
    helpers.randomise(model, seed=4, scale=2.0)
    return model


def search(
    constraints=None,
    model=None,
    config=None,
    source=SOURCE,
    max_length=4,
    **kwargs,
):
    model = model or new_model()
    config = kt.BeamSearchConfig(2, max_extra_tokens=2, **config or {})
    return kt.translate_ids(
        model, source, max_length, constraints, config, **kwargs
    )


def search_with_terms():
    is_part = np.arange(VOCABULARY) % 5 == 4
    edges = kt.WordEdges(is_part, is_part, np.zeros_like(is_part))
    terms = np.array([[[[10, 14], [11, 0]]]] * 3, "int32")
    constraints = kt.Constraints(LENGTHS, terms=terms)
    return search(constraints, config={"word_edges": edges})


def search_trees():
    grammar = TreeGrammar(num_labels=2, num_tags=88, max_depth=3, max_run=2)
    state = grammar.start(LENGTHS - 2, LENGTHS + 3)
    constraints = kt.Constraints(LENGTHS + 3, grammar=state)
    return search(constraints, config={"grammar": grammar})


def search_subset(subset):
    model = new_model()
    # An excluded token's share is an estimate.
    result = search(model=subset.restrict(model))
    return result, subset.to_vocabulary_ids(result.tokens, SOURCE)


def new_shortlist():
    return kt.OutputVocabulary.shortlist(
        TARGETS, np.ones(TARGETS.shape), np.linspace(1, 0, VOCABULARY), 33
    )


def search_table():
    logits = np.random.default_rng(3).normal(size=(3, 2, 64))

    def step(tokens, parents, index, state):
        return keras.ops.convert_to_tensor(logits, "float32"), state

    return kt.beam_search(step, (), LENGTHS, 5, kt.BeamSearchConfig(2))


def update_cache():
    empty = keras.ops.zeros((1, 2, 3, 8))
    rows = keras.ops.ones((1, 2, 2, 4))
    index = keras.ops.convert_to_tensor(1, "int32")
    return kt.KVCache(empty, empty).update(rows, rows, index, True).read(2)


def train(model):
    """Fits and predicts; returns the loss, logits and weights."""
    model.compile(
        keras.optimizers.SGD(0.1),
        kt.LabelSmoothedCrossEntropy(),
        jit_compile=helpers.JITTED,
    )
    fitted = model.fit(INPUTS, TARGET, shuffle=False, verbose=0)
    logits = model.predict(INPUTS, verbose=0)
    return fitted.history["loss"][0], logits, model.trainable_variables


def call_layer(name):
    make, arrays = LAYERS[name]
    layer = make()
    layer(*arrays)
    helpers.randomise(layer, seed=2)
    return layer(*arrays)


def layer_calls():
    """Returns {class name: call} of `layer_samples`."""
    return {
        type(make()).__name__: lambda name=name: call_layer(name)
        for name, (make, _) in LAYERS.items()
    }


def public_calls():
    """Returns {public name: its call}; not a constant: layers need devices."""
    return {
        **layer_calls(),
        "AttentionMask": lambda: kt.AttentionMask(
            SOURCE != 0, causal=True
        ).materialize(5, 2),
        "BeamSearchConfig": lambda: kt.BeamSearchConfig().penalty(LENGTHS),
        "Constraints": lambda: search(
            kt.Constraints(LENGTHS, LENGTHS - 1, TARGET[:, :2]),
            trace_alignments=True,
        ),
        "Cooldown": lambda: kt.Cooldown(kt.TransformerSchedule(12), 100, 10)(
            95
        ),
        "Ensemble": lambda: search(
            model=kt.Ensemble([new_model(), new_model(norm="pre")])
        ),
        "Grammar": search_trees,
        "KVCache": update_cache,
        "LabelSmoothedCrossEntropy": lambda: kt.LabelSmoothedCrossEntropy()(
            TARGET, new_model()(INPUTS)
        ),
        "OutputVocabulary": lambda: [
            search_subset(
                kt.OutputVocabulary.fixed(TARGET.ravel(), VOCABULARY)
            ),
            search_subset(new_shortlist()),
        ],
        "ParserTransformer": lambda: search(
            model=new_model(
                kt.ParserTransformer, positions="next-word", **helpers.WORD_IDS
            )
        ),
        "SamplingConfig": lambda: kt.sample_ids(
            new_model(), SOURCE, 3, LENGTHS, kt.SamplingConfig(2, 0.5, 9, 0.9)
        ),
        "Transformer": lambda: train(new_model()),
        "TransformerConfig": lambda: new_model(positions="learned")(INPUTS),
        "TransformerSchedule": lambda: kt.TransformerSchedule(12)(7),
        "WordEdges": search_with_terms,
        "attention_scores": lambda: kt.attention_scores(
            new_model(), SOURCE, TARGET
        ),
        "beam_search": search_table,
        "force_align": lambda: kt.force_align(new_model(), SOURCE, TARGET),
        "sample_ids": lambda: kt.sample_ids(new_model(), SOURCE, 3, LENGTHS),
        "score_ids": lambda: kt.score_ids(new_model(), SOURCE, TARGET),
        "token_log_probs": lambda: kt.token_log_probs(
            new_model(), SOURCE, TARGET
        ),
        "translate_ids": search,
    }
