"""CTranslate2's model folder: writes it, and translates with it."""

import pathlib
from collections.abc import Sequence

import numpy as np
import sentencepiece
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.common.storage import atomic_write
from export.pretrained.config_files import ANY, split_keys, validate_config
from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    PythonTokenizer,
    PythonTokenizerPair,
    find_tags,
    load_python_source_tokenizer,
    read_kind,
    read_vocab_size,
    split_vocabulary,
)
from export.translators.batches import BATCH_TOKENS
from export.translators.model_backend import ModelBackend
from export.translators.translation import Sentence, Translation
from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.search_config import length_penalty

QUANTIZATIONS = ("float32", "float16", "int16", "int8")
VOCABULARY_FILE = "vocabulary.model"
# Written only if source and target have separate vocabularies.
SOURCE_VOCABULARY_FILE = "source_vocabulary.model"
_END = "</s>"
# CTranslate2 truncates sources to this number of pieces by default.
_SOURCE_POSITIONS = 1024
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
# Supported values by field; other fields must have their default. Settings of
# the search are arguments of CTranslate2, which the command prints.
_SUPPORTED_VALUES = split_keys(
    {
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon max_positions "
        "beam_size alpha max_extra_tokens alignment_layer alignment_heads "
        "no_repeat_ngram_size repetition_penalty": ANY,
        "norm": ("post", "pre"),
        "activation": tuple(_ACTIVATIONS),
        "attention_bias output_bias": (False, True),
        "share_embeddings": ("all", "target-softmax", "none"),
        "positions": ("sinusoidal", "learned"),
        "sinusoid_rates": ("paper", "marian", "fairseq"),
        "length_penalty": ("gnmt", "power"),
        "stop_criterion": ("exact", "k_finished", "heuristic"),
    }
)


def save_ctranslate2(
    model: kt.Transformer,
    vocabulary: bytes,
    path: pathlib.Path,
    quantization: str = "float32",
    target_pieces: Sequence[int] | np.ndarray | None = None,
) -> None:
    """Writes a Transformer as a CTranslate2 model folder.

    It reads and generates SentencePiece pieces, whose models are also written;
    CTranslate2 appends the end of the source.

    Args:
        model: the model to write.
        vocabulary: content of its `vocabulary.model`.
        path: the folder, which must not exist.
        quantization: one of QUANTIZATIONS, the type of the stored matrices.
        target_pieces: target ids to write, None for all; those of languages
            that a hypothesis begins with are added.

    Raises InputError if CTranslate2 cannot represent the model, or the
    vocabulary belongs to another model.
    """
    config = model.config
    advice = "export the model as a SavedModel instead (export.saved_model)"
    validate_config(config, _SUPPORTED_VALUES, "CTranslate2", advice)
    size = config.vocabulary_size
    source_proto, target_proto = split_vocabulary(vocabulary)
    target_ids: np.ndarray = np.arange(size)
    if target_pieces is not None:
        # The same ids as in this package's search, which adds special ones.
        target_ids = kt.OutputVocabulary.fixed(target_pieces, size).ids
        if read_kind(source_proto) == LANGUAGE_PAIR:
            # A hypothesis begins with its language, which must have an id.
            tag_ids = [*find_tags(target_proto).values()]
            target_ids = np.union1d(target_ids, tag_ids)
    spec = _make_spec(model, target_ids)
    files = {VOCABULARY_FILE: target_proto}
    if source_proto is not target_proto:
        files[SOURCE_VOCABULARY_FILE] = source_proto
    pieces = _list_pieces(source_proto, config.encoder_vocabulary_size)
    spec.register_source_vocabulary(pieces)
    pieces = _list_pieces(target_proto, size)
    spec.register_target_vocabulary([pieces[i] for i in target_ids])
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    with atomic_write(path) as temporary:
        temporary.mkdir()
        spec.save(str(temporary))
        for name, content in files.items():
            (temporary / name).write_bytes(content)


def _list_pieces(proto, size):
    """Returns the pieces of a SentencePiece model in the order of their ids."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    pieces = [processor.IdToPiece(i) for i in range(len(processor))]
    if len(pieces) > size and read_vocab_size(proto) == size:
        # A pretrained model treats the remaining pieces as unknown.
        return pieces[:size]
    if len(pieces) != size:
        raise InputError(
            f"The vocabulary has {len(pieces)} pieces and the model {size}; "
            "give the vocabulary of the same model."
        )
    return pieces


def _make_spec(model, target_ids):
    """Returns the TransformerSpec of a model with an output for some ids."""
    from ctranslate2.specs import TransformerSpec, common_spec

    config = model.config
    alignment_layer, alignment_heads = config.alignment_attention
    spec = TransformerSpec.from_config(
        (config.num_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[_ACTIVATIONS[config.activation]],
        alignment_layer=alignment_layer - 1,
        alignment_heads=alignment_heads,
    )
    _copy_stack(spec.encoder, model.encoder)
    _copy_stack(spec.decoder, model.decoder)
    rows = config.max_positions
    if config.positions != "learned":
        rows = _SOURCE_POSITIONS + config.max_extra_tokens + 1
    # Stored, as CTranslate2 orders the columns of its sinusoids differently.
    positions = np.arange(rows, dtype="int32")
    spec.encoder.position_encodings.encodings = _to_float32(
        model.source_positions.encode(positions)
    )
    spec.decoder.position_encodings.encodings = _to_float32(
        model.target_positions.encode(positions)
    )
    source, target = model.source_embedding, model.target_embedding
    output = model.output_embedding
    spec.encoder.embeddings[0].weight = _to_float32(source.embeddings)
    spec.decoder.embeddings.weight = _to_float32(target.embeddings)[target_ids]
    spec.decoder.projection.weight = _to_float32(output.embeddings)[target_ids]
    if output.bias is not None:
        spec.decoder.projection.bias = _to_float32(output.bias)[target_ids]
    return spec


def _copy_stack(spec, stack):
    """Copies the weights of an Encoder or a Decoder to its spec."""
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        attention = layer.self_attention
        _copy_attention(
            layer_spec.self_attention,
            [attention.query_key_value, attention.output_projection],
            layer.self_attention_residual,
        )
        if isinstance(stack, kt.Decoder):
            cross = layer.cross_attention
            _copy_attention(
                layer_spec.attention,
                [cross.query, cross.key_value, cross.output_projection],
                layer.cross_attention_residual,
            )
        ffn, ffn_spec = layer.feed_forward, layer_spec.ffn
        _copy_projection(ffn_spec.linear_0, ffn.inner_projection)
        _copy_projection(ffn_spec.linear_1, ffn.output_projection)
        _copy_norm(ffn_spec, layer.feed_forward_residual.layer_norm)
    if stack.final_norm is not None:
        _copy_norm(spec, stack.final_norm)


def _copy_attention(spec, projections, residual):
    for linear, projection in zip(spec.linear, projections, strict=True):
        _copy_projection(linear, projection)
    _copy_norm(spec, residual.layer_norm)


def _copy_projection(spec, projection):
    spec.weight = np.ascontiguousarray(_to_float32(projection.kernel).T)
    if projection.bias is not None:
        spec.bias = _to_float32(projection.bias)


def _copy_norm(spec, layer_norm):
    spec.layer_norm.gamma = _to_float32(layer_norm.gamma)
    spec.layer_norm.beta = _to_float32(layer_norm.beta)


def _to_float32(tensor):
    return np.asarray(ops.convert_to_numpy(tensor), np.float32)


class CTranslate2Backend(ModelBackend):
    """Finds best translations by CTranslate2's beam search on a CPU.

    CTranslate2 ranks by log-probability / length ** alpha; scores are
    log-probability / length penalty of the configuration.

    Args:
        path: a folder of `save_ctranslate2`.
        config: has the settings of the search.
        max_source_tokens: see ModelBackend.

    Attributes:
        compute_type: type of the matrix products, such as "int8_float32".
    """

    # CTranslate2 starts threads itself.
    num_threads = 1
    has_alignments = False

    def __init__(
        self,
        path: pathlib.Path,
        config: TransformerConfig,
        max_source_tokens: int | None = None,
    ):
        import ctranslate2

        source_path = path / SOURCE_VOCABULARY_FILE
        try:
            self._translator = ctranslate2.Translator(str(path), device="cpu")
            source = target = PythonTokenizer(
                (path / VOCABULARY_FILE).read_bytes()
            )
            if source_path.exists():
                source = load_python_source_tokenizer(source_path.read_bytes())
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"CTranslate2 cannot load {path}: {error}"
            ) from error
        tokenizer = PythonTokenizerPair(source, target)
        super().__init__(tokenizer, config, max_source_tokens)
        # The target's language, which the tokens begin with.
        self._num_given_tokens = int(source.has_both_tags)
        self.compute_type = self._translator.compute_type

    def search(
        self, sentences: Sequence[Sentence], n: int, align: bool
    ) -> list[list[Translation]]:
        """See the base class; `n` is 1."""
        del n, align
        rows: dict[int, Translation] = {}
        # A call has one length limit for all sentences, and a translation must
        # not depend on the others.
        for length in {sentence.length for sentence in sentences}:
            indices = [
                index
                for index, sentence in enumerate(sentences)
                if sentence.length == length
            ]
            # CTranslate2 appends the end token.
            ids = [sentences[index].ids[:-1].tolist() for index in indices]
            rows |= zip(indices, self._search(ids))
        return [[rows[index]] for index in range(len(sentences))]

    def _search(self, ids):
        """Yields the best Translation of sources of the same length."""
        config, given = self._config, self._num_given_tokens
        to_token = self.tokenizer.source.id_to_token
        pieces = [[*map(to_token, row)] for row in ids]
        prefixes = [row[:given] for row in pieces]
        sources = [row[given:] for row in pieces]
        results = self._translator.translate_batch(
            sources,
            target_prefix=prefixes if given else None,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            beam_size=config.beam_size,
            length_penalty=config.alpha,
            no_repeat_ngram_size=config.no_repeat_ngram_size,
            repetition_penalty=config.repetition_penalty,
            # Both as in this package's search.
            disable_unk=True,
            # CTranslate2 counts the given token.
            min_decoding_length=given + 1,
            max_decoding_length=given
            + len(sources[0])
            + config.max_extra_tokens,
            return_end_token=True,
        )
        outputs = [result.hypotheses[0][given:] for result in results]
        # The search's own scores are normalized over the allowed tokens only.
        scores = self._translator.score_batch(
            sources,
            # `score_batch` appends the end itself.
            [
                prefix + [each for each in output if each != _END]
                for prefix, output in zip(prefixes, outputs)
            ],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
        )
        for output, score in zip(outputs, scores):
            length = given + len(output)
            log_probability = sum(score.log_probs[given:length])
            penalty = length_penalty(
                length, config.alpha, config.length_penalty
            )
            text = self.tokenizer.target.text(output)
            yield Translation(text, log_probability / float(penalty))
