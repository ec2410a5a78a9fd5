"""Writes a Transformer as a model folder for CTranslate2, and runs it."""

import numpy as np
import sentencepiece
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.common.storage import atomic_write
from export.pretrained.config_files import ANY, split_keys, validate_config
from export.tokenizers.python_tokenizers import (
    PythonTokenizer,
    load_python_source_tokenizer,
    read_vocab_size,
    split_vocabulary,
)
from export.translators.batches import BATCH_TOKENS
from export.translators.text_translator import BLANK, Translation
from keras_transformer.decoding.search_config import length_penalty

QUANTIZATIONS = ("float32", "float16", "int16", "int8")
VOCABULARY_FILE = "vocabulary.model"
# Written only if source and target have separate vocabularies.
SOURCE_VOCABULARY_FILE = "source_vocabulary.model"
_END = "</s>"
# CTranslate2 needs a table of sinusoids, and by default truncates sources to
# this number of pieces.
_SOURCE_POSITIONS = 1024
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
# Supported values by field; other fields must have their default. Settings of
# the search are arguments of CTranslate2, which the command prints.
_SUPPORTED_VALUES = split_keys(
    {
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon max_positions "
        "beam_size alpha max_extra_tokens": ANY,
        "norm": ("post", "pre"),
        "activation": tuple(_ACTIVATIONS),
        "attention_bias output_bias": (False, True),
        "share_embeddings": ("all", "target-softmax", "none"),
        "positions": ("sinusoidal", "learned"),
        "sinusoid_rates": ("paper", "marian"),
        "length_penalty": ("gnmt", "power"),
        "stop_criterion": ("exact", "k_finished", "heuristic"),
    }
)


def save_ctranslate2(
    model, vocabulary, path, quantization="float32", target_pieces=None
):
    """Writes a Transformer as a CTranslate2 model folder.

    The model reads and generates SentencePiece pieces; CTranslate2 appends the
    end of the source. The folder also has the SentencePiece models.

    Args:
        model: Transformer.
        vocabulary: bytes of its `vocabulary.model`.
        path: path of the folder, which must not exist.
        quantization: one of QUANTIZATIONS, the type of the stored matrices.
        target_pieces: ids to write, see `kt.OutputVocabulary`; None for all.

    Raises InputError if CTranslate2 does not support the model, or the
    vocabulary is of another one.
    """
    config = model.config
    validate_config(
        *(config, _SUPPORTED_VALUES, "CTranslate2"),
        "export the model as a SavedModel instead (export.saved_model)",
    )
    size = config.vocabulary_size
    ids = range(size) if target_pieces is None else target_pieces
    ids = kt.OutputVocabulary.fixed(ids, size).ids
    spec = _make_spec(model, ids)
    source, target = split_vocabulary(vocabulary)
    files = {VOCABULARY_FILE: target}
    if source is not target:
        files[SOURCE_VOCABULARY_FILE] = source
    spec.register_source_vocabulary(
        _list_pieces(source, config.encoder_vocabulary_size)
    )
    pieces = _list_pieces(target, size)
    spec.register_target_vocabulary([pieces[number] for number in ids])
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    with atomic_write(path) as temporary:
        temporary.mkdir()
        spec.save(str(temporary))
        for name, content in files.items():
            (temporary / name).write_bytes(content)


def _list_pieces(vocabulary, size):
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    pieces = [processor.IdToPiece(i) for i in range(len(processor))]
    if len(pieces) > size == read_vocab_size(vocabulary):
        # A pretrained model treats the remaining pieces as unknown.
        return pieces[:size]
    if len(pieces) != size:
        raise InputError(
            f"The vocabulary has {len(pieces)} pieces and the model {size}; "
            "give the vocabulary of the same model."
        )
    return pieces


def _make_spec(model, ids):
    from ctranslate2.specs import TransformerSpec, common_spec

    config = model.config
    spec = TransformerSpec.from_config(
        (config.num_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[_ACTIVATIONS[config.activation]],
    )
    _copy_stack(spec.encoder, model.encoder)
    _copy_stack(spec.decoder, model.decoder)
    rows = config.max_positions
    if config.positions != "learned":
        rows = _SOURCE_POSITIONS + config.max_extra_tokens + 1
    # CTranslate2 orders the columns of its own sinusoids differently.
    for side, positions in (
        (spec.encoder, model.source_positions),
        (spec.decoder, model.target_positions),
    ):
        side.position_encodings.encodings = _array(
            positions.encode(np.arange(rows, dtype="int32"))
        )
    spec.encoder.embeddings[0].weight = _array(
        model.source_embedding.embeddings
    )
    target, output = model.target_embedding, model.output_embedding
    spec.decoder.embeddings.weight = _array(target.embeddings)[ids]
    spec.decoder.projection.weight = _array(output.embeddings)[ids]
    if output.bias is not None:
        spec.decoder.projection.bias = _array(output.bias)[ids]
    return spec


def _copy_stack(spec, stack):
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        self_attention = layer_spec.self_attention
        _copy(self_attention.linear[0], layer.self_attention.query_key_value)
        _copy(self_attention.linear[1], layer.self_attention.output_projection)
        _fill_norm(self_attention, layer.self_attention_residual.layer_norm)
        if hasattr(layer_spec, "attention"):
            cross_attention = layer_spec.attention
            for linear, name in zip(
                cross_attention.linear,
                ("query", "key_value", "output_projection"),
                strict=True,
            ):
                _copy(linear, getattr(layer.cross_attention, name))
            _fill_norm(
                cross_attention, layer.cross_attention_residual.layer_norm
            )
        _copy(layer_spec.ffn.linear_0, layer.feed_forward.inner_projection)
        _copy(layer_spec.ffn.linear_1, layer.feed_forward.output_projection)
        _fill_norm(layer_spec.ffn, layer.feed_forward_residual.layer_norm)
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec, stack.final_norm)


def _copy(spec, projection):
    spec.weight = np.ascontiguousarray(_array(projection.kernel).T)
    if projection.bias is not None:
        spec.bias = _array(projection.bias)


def _fill_norm(spec, norm):
    spec.layer_norm.gamma = _array(norm.gamma)
    spec.layer_norm.beta = _array(norm.beta)


def _array(tensor):
    return np.asarray(ops.convert_to_numpy(tensor), np.float32)


class CTranslate2Translator:
    """Beam search by CTranslate2 on a CPU.

    `path` is a folder of `save_ctranslate2`, and `config` a TransformerConfig
    with the settings of the search. Sources are truncated to
    `max_source_tokens`, the end included. `compute_type` is the type of the
    matrix products, such as "int8_float32".
    """

    def __init__(self, path, config, max_source_tokens):
        import ctranslate2

        self._config = config
        self._limit = max_source_tokens
        source_path = path / SOURCE_VOCABULARY_FILE
        try:
            self._translator = ctranslate2.Translator(str(path), device="cpu")
            proto = (path / VOCABULARY_FILE).read_bytes()
            self._target = sentencepiece.SentencePieceProcessor(
                model_proto=proto
            )
            self._source = (
                load_python_source_tokenizer(source_path.read_bytes())
                if source_path.exists()
                else PythonTokenizer(proto)
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"CTranslate2 cannot load {path}: {error}"
            ) from error
        self.compute_type = self._translator.compute_type

    def translate(self, texts, on_progress=None):
        """Translates a list of str to a list of Translation, in order.

        CTranslate2 ranks by log-probability / length ** alpha; the returned
        score is log-probability / length penalty of the configuration.
        `on_progress` is called with the number of sentences just translated.
        """
        # CTranslate2 appends the end token.
        sources = [
            self._source.tokens(text)[: self._limit - 1] for text in texts
        ]
        answers = [BLANK] * len(sources)
        # A call has one length limit for all sentences, and a translation must
        # not depend on the others.
        for length in sorted({len(source) for source in sources}):
            numbers = [
                number
                for number, source in enumerate(sources)
                if len(source) == length
            ]
            if length:
                batch = [sources[number] for number in numbers]
                for number, answer in zip(numbers, self._search(batch)):
                    answers[number] = answer
            if on_progress is not None:
                on_progress(len(numbers))
        return answers

    def _search(self, sources):
        config = self._config
        results = self._translator.translate_batch(
            sources,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            beam_size=config.beam_size,
            length_penalty=config.alpha,
            # Both as in this package's search.
            disable_unk=True,
            min_decoding_length=1,
            max_decoding_length=len(sources[0]) + config.max_extra_tokens,
            return_end_token=True,
        )
        outputs = [result.hypotheses[0] for result in results]
        # The search's own scores are normalized over the allowed tokens only.
        texts = [
            pieces[:-1] if pieces[-1:] == [_END] else pieces
            for pieces in outputs
        ]
        scored = self._translator.score_batch(
            sources, texts, max_batch_size=BATCH_TOKENS, batch_type="tokens"
        )
        for pieces, score in zip(outputs, scored):
            penalty = length_penalty(
                len(pieces), config.alpha, config.length_penalty
            )
            log_probability = sum(score.log_probs[: len(pieces)])
            yield Translation(
                self._target.decode(pieces), log_probability / float(penalty)
            )
