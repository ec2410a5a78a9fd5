"""Writes a model for LiteRT, on phones and in browsers: `export.litert`.

    python -m export.litert --model_dir=runs/demo --output_dir=phone

The folder has translate.tflite, vocabulary.model, which SentencePiece loads on
the device, and litert.json with lengths and ids. Before it is written, the file
runs in this process, and its results for some texts are compared with those of
the model. docs/ecosystem/litert.md has the signatures, and code for devices.
"""

import importlib
import itertools

import numpy as np
import tensorflow as tf
from absl import flags
from keras import tree
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2,
)

import keras_transformer as kt
from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write, write_json
from export.model_directory import ModelDirectory
from export.serving.export_directory import random_texts
from export.tokenizers.python_tokenizers import find_tags, split_vocabulary
from export.translators import search_flags
from export.translators.batches import length_limits, pad_ids
from export.translators.ids_backend import compile_for_model
from export.translators.model_backend import model_for_tokenizer
from export.translators.translation import encode_texts
from keras_transformer.config import BEGIN_ID, END_ID, UNKNOWN_ID
from keras_transformer.decoding.candidates import best_candidates

FLAGS = flags.FLAGS

# Number of tokens of each text of the check.
_LENGTHS = (8, 3, 12, 1, 5, 9, 2, 7, 20, 4)
# By type, the largest difference of scores, relative to 1 + the score, and the
# least share of equal results: random texts have several likely translations.
_TOLERANCES = {
    "float32": (5e-5, 0.9),
    "float16": (0.02, 0.7),
    "int8": (0.2, 0.3),
}

search_flags.define_search()
search_flags.define_folders()
flags.DEFINE_integer(
    "max_source_tokens",
    64,
    "Number of tokens of a source, the end token included; shorter ones are "
    "padded, which costs time.",
    lower_bound=2,
)
flags.DEFINE_enum(
    "quantization",
    "float32",
    [*_TOLERANCES],
    "Type of the stored matrices. Those of float16 have half of the size, of "
    "int8, which also multiplies in it, a quarter.",
)
flags.DEFINE_boolean(
    "check",
    True,
    "Compare the file's results with the model's before anything is written; "
    "needs the package ai-edge-litert.",
)


def main(arguments: list[str]) -> None:
    """Writes the folder of a LiteRT file."""
    del arguments
    if FLAGS.check:
        # Before the conversion.
        importlib.import_module("ai_edge_litert")
    path = command.new_path("output_dir")
    directory = ModelDirectory(FLAGS.model_dir)
    model, tokenizer, languages = directory.load()
    source, target = split_vocabulary(directory.read_vocabulary())
    model = model_for_tokenizer(model, tokenizer)
    config = model.config.with_search(
        **search_flags.read_given_flags(search_flags.SEARCH)
    )
    # Windows are untested. LiteRT adds the penalties of a token's occurrences.
    for name, expected in ("attention_window", 0), ("repetition_penalty", 1):
        if getattr(config, name) != expected:
            raise InputError(
                f"LiteRT has no {name}={getattr(config, name)}; export the "
                "model as a SavedModel instead (export.saved_model)."
            )
    search = kt.BeamSearchConfig.from_config(
        config, num_given_tokens=model.num_given_tokens, min_length=1
    )
    limits = length_limits(config, FLAGS.max_source_tokens)
    content = _convert(model, search, *limits)
    if FLAGS.check:
        codes = languages.codes or ("",)
        texts = [
            languages._replace(
                source=languages.source or codes[0], target=code
            ).tag(text)
            for text, code in zip(
                random_texts(source, _LENGTHS), itertools.cycle(codes)
            )
        ]
        rows = encode_texts(tokenizer.source, texts, limits[0])
        ids = [sentence.ids for sentence in rows if sentence.length > 1]
        _check(content, model, search, pad_ids(ids, limits[0]))
    description = {
        "quantization": FLAGS.quantization,
        "max_source_tokens": limits[0],
        "max_output_tokens": limits[1],
        "max_extra_tokens": config.max_extra_tokens,
        "beam_size": config.beam_size,
        "source_vocabulary_size": config.encoder_vocabulary_size,
        "unknown_id": UNKNOWN_ID,
        "begin_id": BEGIN_ID,
        "end_id": END_ID,
        "source_language": languages.source,
        "target_language": languages.target,
        "language_tags": languages.num_tags,
        "languages": find_tags(source) if languages.num_tags else {},
    }
    files = {"translate.tflite": content, "vocabulary.model": target}
    if source is not target:
        files["source_vocabulary.model"] = source
    with atomic_write(path) as temporary:
        temporary.mkdir()
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        write_json(temporary / "litert.json", description)
    print(
        f"Wrote {path}: {len(content) / 1e6:.1f} MB, {FLAGS.quantization}, for "
        f"sources of up to {limits[0]} tokens; docs/ecosystem/litert.md says "
        "how to use it.",
        flush=True,
    )


def _convert(model, search, source_limit, capacity):
    """Returns the bytes of a LiteRT file with three signatures.

    All shapes are fixed: LiteRT.js returns garbage for others.
    """
    decoder = model.beam_decoder(beam_size=1)

    def translate(tokens):
        result = kt.translate_ids(model, tokens, config=search)
        return {"tokens": result.tokens, "scores": result.scores}

    def prefill(tokens):
        memory, cache = map(_pack, _split(decoder.start(tokens, capacity)))
        # LiteRT.js returns no constants, such as an empty cache. It stays 0:
        # no id is below.
        zero = tf.cast(tf.minimum(tokens[:, :1], 0), tf.float32)
        return {"memory": memory, "cache": cache + zero}

    def step(token, index, memory, cache):
        state, caches = map(_unpack, (memory, cache), templates)
        logits, state = decoder.step(
            token, tf.zeros_like(token), index[0], state._replace(**caches)
        )
        best = best_candidates(
            logits,
            tf.zeros([1, 1]),
            end_rank=1,
            suppress_tokens=search.suppress_tokens,
            too_short=index < search.min_length,
        )
        log_prob = tf.where(best.may_end, best.end_log_probs, best.log_probs)
        return {
            "token": tf.where(best.may_end, END_ID, best.tokens),
            "log_prob": log_prob,
            "cache": _pack(_split(state)[1]),
        }

    tokens = tf.TensorSpec([1, source_limit], tf.int32, "tokens")
    start = tf.function(decoder.start, autograph=False)
    templates = _split(
        start.get_concrete_function(tokens, capacity).structured_outputs
    )
    module = tf.Module()
    # Attributes, so that TensorFlow saves them.
    module.translate = _freeze(translate, tokens)
    module.prefill = _freeze(prefill, tokens)
    module.step = _freeze(
        step,
        tf.TensorSpec([1, 1], tf.int32, "token"),
        tf.TensorSpec([1], tf.int32, "index"),
        *(
            tf.TensorSpec(
                module.prefill.structured_outputs[name].shape, name=name
            )
            for name in ("memory", "cache")
        ),
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [module.translate, module.prefill, module.step], module
    )
    if FLAGS.quantization != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if FLAGS.quantization == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _split(state):
    """Returns a DecoderState without what steps change, and a dict of that."""
    changed = ("self_attention_caches", "ancestry")
    constant = state._replace(**dict.fromkeys(changed, ()))
    return constant, {name: getattr(state, name) for name in changed}


def _pack(tensors):
    """Returns a nest of tensors as one, float32 [1, N]."""
    return tf.concat(
        [
            tf.reshape(tf.cast(each, tf.float32), [1, -1])
            for each in tree.flatten(tensors)
        ],
        axis=1,
    )


def _unpack(vector, template):
    """Returns the nest of tensors that was packed."""
    specs = tree.flatten(template)
    sizes = [each.shape.num_elements() for each in specs]
    parts = zip(tf.split(vector, sizes, axis=1), specs)
    tensors = [
        tf.cast(tf.reshape(part, each.shape), each.dtype)
        for part, each in parts
    ]
    return tree.pack_sequence_as(template, tensors)


def _freeze(function, *signature):
    """Returns a ConcreteFunction with constants in place of variables.

    LiteRT converts loops that read variables, but cannot run them.
    """

    def trace(function):
        return tf.function(
            function, input_signature=signature, autograph=False
        ).get_concrete_function()

    traced = trace(function)
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)

    def call(*inputs):
        return tf.nest.pack_sequence_as(
            traced.structured_outputs, frozen(*inputs)
        )

    # The name of the signature.
    call.__name__ = function.__name__
    return trace(call)


def _check(content, model, search, source):
    """Raises InputError if a file's results are not the model's.

    `source` is int32 [B, S].
    """
    # Not at the top: writing a file does not need it.
    from ai_edge_litert.interpreter import Interpreter

    greedy = kt.BeamSearchConfig(
        beam_size=1,
        stop_criterion="k_finished",
        max_extra_tokens=search.max_extra_tokens,
        min_length=search.min_length,
    )

    def search_ids(source):
        tokens, scores, _ = kt.translate_ids(model, source, config=search)
        stream = kt.translate_ids(model, source, config=greedy).tokens[:, 0]
        log_probs = kt.token_log_probs(model, source, stream)
        return (tokens[:, 0], scores[:, 0]), (stream, log_probs)

    best, stream = compile_for_model(model, search_ids)(source)
    # At its maximum length a translation ends, but a stream continues.
    shortest = np.count_nonzero(source, axis=1).min() - 1
    count = min(shortest + search.max_extra_tokens, best[0].shape[1]) - 1
    stream = [each[:, :count] for each in stream]
    interpreter = Interpreter(model_content=content)
    run = interpreter.get_signature_runner
    results = [run("translate")(tokens=row[None]) for row in source]
    streams = [
        _stream(run("prefill"), run("step"), row, count) for row in source
    ]
    most, least = _TOLERANCES[FLAGS.quantization]
    for name, tokens, scores, expected in (
        (
            "translate",
            [each["tokens"][0, 0] for each in results],
            [each["scores"][0, 0] for each in results],
            best,
        ),
        ("step", *zip(*streams), stream),
    ):
        equal = np.all(tokens == expected[0], axis=1)
        expected_scores = np.asarray(expected[1])[equal]
        difference = np.max(
            np.abs(np.stack(scores)[equal] - expected_scores)
            / (1 + np.abs(expected_scores)),
            initial=0.0,
        )
        if equal.mean() < least or not difference <= most:
            raise InputError(
                f"The LiteRT file is wrong, so nothing was written: its {name} "
                f"has {equal.mean():.0%} of the model's results, expected "
                f"{least:.0%}, with scores that differ by {difference:.1e}, "
                f"expected at most {most:.1e}."
            )


def _stream(prefill, step, ids, count):
    """Returns tokens and log-probabilities [count], 0 after the end."""
    tokens = np.zeros(count, np.int32)
    log_probs = np.zeros(count, np.float32)
    state = prefill(tokens=ids[None])
    state["token"] = np.array([[BEGIN_ID]], np.int32)
    for index in range(count):
        state |= step(index=np.array([index], np.int32), **state)
        log_probs[index] = state.pop("log_prob").item()
        tokens[index] = state["token"].item()
        if tokens[index] == END_ID:
            break
    return tokens, log_probs


if __name__ == "__main__":
    command.run(main)
