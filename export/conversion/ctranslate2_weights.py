"""The same weights as a model folder for CTranslate2."""

import importlib.util

import numpy as np
import sentencepiece
from keras import ops

import keras_transformer as kt
from export.errors import InputError
from export.files.atomic import written_whole
from export.pretrained.known_fields import fields_not_held, names_of
from export.pretrained.two_sided import listed_pieces

QUANTIZATIONS = ("float32", "float16", "int16", "int8")
VOCABULARY_FILE = "vocabulary.model"
# Beside it where the source has a vocabulary of its own.
SOURCE_VOCABULARY_FILE = "source_vocabulary.model"
# A sinusoid has no end; CTranslate2 wants a table.
_SINUSOID_POSITIONS = 1024
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
# The fields that a folder can hold; others must be the default. Those of a
# search are for whoever calls it, and export.ctranslate2 prints them.
_HELD = {
    **names_of(
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon max_positions "
        "beam_size alpha max_output_extra"
    ),
    "norm": ("post", "pre"),
    "activation": tuple(_ACTIVATIONS),
    "attention_bias": (False, True),
    "share_embeddings": ("all", "target-softmax", "none"),
    "output_bias": (False, True),
    "positions": ("sinusoidal", "learned"),
    "sinusoid_rates": ("paper", "marian"),
    "length_penalty": ("gnmt", "power"),
    "stop": ("certain", "finished", "likely"),
}


def save_ctranslate2(
    model,
    vocabulary,
    path,
    quantization="float32",
    source_vocabulary=None,
    target_pieces=None,
):
    """Writes a Transformer as a CTranslate2 model folder.

    The folder takes and gives SentencePiece pieces; CTranslate2 adds the end
    piece to the source itself. The SentencePiece model lies beside the
    weights, or the two models, where the source has a vocabulary of its own.

    Args:
        model: Transformer.
        vocabulary: bytes of its SentencePiece model; the target's, where the
            source has one of its own.
        path: of the folder; nothing is there yet.
        quantization: how CTranslate2 stores matrices: "float32", "float16",
            "int16" or "int8".
        source_vocabulary: bytes of the source's own SentencePiece model, which
            may have the same pieces; None where there is one for both.
        target_pieces: ids of the target's pieces that the folder knows, see
            `kt.TargetPieces`; None for all.

    Raises:
        InputError: the package ctranslate2 is missing, it has no such model
            or quantization, a vocabulary is missing or not the model's, or
            writing fails.
    """
    require_ctranslate2()
    _check_quantization(quantization)
    _check_config(model.config)
    if model.config.source_vocabulary_size and source_vocabulary is None:
        raise InputError(
            "The source's own vocabulary must be given for a model that has "
            "one; this model has source_vocabulary_size="
            f"{model.config.source_vocabulary_size}."
        )
    size = model.config.vocabulary_size
    kept = kt.TargetPieces(
        range(size) if target_pieces is None else target_pieces, size
    ).ids
    spec = _filled(model, kept)
    files = {VOCABULARY_FILE: vocabulary}
    if source_vocabulary is not None:
        files[SOURCE_VOCABULARY_FILE] = source_vocabulary
    of_source = files.get(SOURCE_VOCABULARY_FILE, vocabulary)
    spec.register_source_vocabulary(
        _pieces(of_source, model.config.source_pieces)
    )
    pieces = _pieces(vocabulary, size)
    spec.register_target_vocabulary([pieces[number] for number in kept])
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    with written_whole(path) as temporary:
        temporary.mkdir()
        spec.save(str(temporary))
        for name, content in files.items():
            (temporary / name).write_bytes(content)


def require_ctranslate2():
    """Checks that the package is there; it is no dependency of ours.

    Raises:
        InputError: it is not.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise InputError(
            "The package ctranslate2 is not installed; install it with: "
            "pip install -r requirements-serving.txt"
        )


def _check_quantization(name):
    if name not in QUANTIZATIONS:
        raise InputError(
            f"There is no quantization {name!r}; choose one of "
            f"{', '.join(QUANTIZATIONS)}."
        )


def _check_config(config):
    lacking = fields_not_held(config, _HELD)
    if config.counts_words:
        lacking.insert(0, "positions of words")
    if not config.heads_fill_model:
        lacking.append("d_k and d_v other than d_model / num_heads")
    for what in lacking:
        raise InputError(
            f"CTranslate2 cannot run this model: it has no {what}; "
            "export it as a SavedModel instead (export.saved_model)."
        )


def _pieces(vocabulary, size):
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    pieces = [processor.IdToPiece(i) for i in range(len(processor))]
    if len(pieces) > size == listed_pieces(vocabulary):
        # Of a pretrained model: the others count as unknown.
        return pieces[:size]
    if len(pieces) != size:
        raise InputError(
            f"The vocabulary has {len(pieces)} pieces and the model {size}; "
            "they must be of the same training."
        )
    return pieces


def _filled(model, kept):
    from ctranslate2.specs import TransformerSpec, common_spec

    config = model.config
    activation = _ACTIVATIONS[config.activation]
    spec = TransformerSpec.from_config(
        (config.num_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[activation],
    )
    _fill_stack(spec.encoder, model.encoder)
    _fill_stack(spec.decoder, model.decoder)
    # Theirs is laid out in another way, so that it is never left to them.
    spec.encoder.position_encodings.encodings = _positions(
        model.source_positions, config
    )
    spec.decoder.position_encodings.encodings = _positions(
        model.target_positions, config
    )
    spec.encoder.embeddings[0].weight = _embeddings(model.source_embedding)
    of_target = _embeddings(model.target_embedding)
    spec.decoder.embeddings.weight = of_target[kept]
    _fill_projection(spec.decoder.projection, model.output_embedding, kept)
    return spec


def _embeddings(layer):
    return _array(layer.embeddings)


def _fill_projection(spec, layer, kept):
    spec.weight = _embeddings(layer)[kept]
    if layer.bias is not None:
        spec.bias = _array(layer.bias)[kept]


def _positions(layer, config):
    rows = (
        config.max_positions
        if config.positions == "learned"
        else _SINUSOID_POSITIONS
    )
    return _array(layer.encode(np.arange(rows, dtype="int32")))


def _fill_stack(spec, stack):
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_attention(
            layer_spec.self_attention,
            ("query_key_value", "output_projection"),
            layer.self_attention,
            layer.self_attention_residual,
        )
        if hasattr(layer_spec, "attention"):
            _fill_attention(
                layer_spec.attention,
                ("query", "key_value", "output_projection"),
                layer.cross_attention,
                layer.cross_attention_residual,
            )
        _fill_feed_forward(
            layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual
        )
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec.layer_norm, stack.final_norm)


def _fill_attention(spec, names, layer, residual):
    for linear, name in zip(spec.linear, names, strict=True):
        _fill_linear(linear, getattr(layer, name))
    _fill_norm(spec.layer_norm, residual.layer_norm)


def _fill_feed_forward(spec, layer, residual):
    _fill_linear(spec.linear_0, layer.inner_projection)
    _fill_linear(spec.linear_1, layer.output_projection)
    _fill_norm(spec.layer_norm, residual.layer_norm)


def _fill_linear(spec, layer):
    spec.weight = np.ascontiguousarray(_array(layer.kernel).T)
    if layer.bias is not None:
        spec.bias = _array(layer.bias)


def _fill_norm(spec, layer):
    spec.gamma, spec.beta = _array(layer.gamma), _array(layer.beta)


def _array(tensor):
    return np.asarray(ops.convert_to_numpy(tensor), np.float32)
