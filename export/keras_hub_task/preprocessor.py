"""KerasHub tokenizer and preprocessor: strings to ids and back."""

import types
import typing

import keras
import keras_hub
import tensorflow as tf

from export.keras_hub_task.backbone import FromPresetMixin, TransformerBackbone
from export.model_directory import ModelDirectory
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.tokenizers.tags import tag_pattern
from export.translators.languages import Languages
from export.translators.text_ops import add_tags
from keras_transformer.config import BEGIN_ID, END_ID
from keras_transformer.types import Tensor, TensorLike

# Every batch is padded to this length.
_SEQUENCE_LENGTH = 128


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerTokenizer(
    FromPresetMixin, keras_hub.tokenizers.SentencePieceTokenizer
):
    """Tokenizes targets with the `vocabulary.model` of a model directory.

    `proto` is a SentencePiece model with pad, unknown, begin and end ids 0 to
    3, or one for each side: the bytes of a `vocabulary.model`, or anything else
    that SentencePieceTokenizer accepts. KerasHub's methods are about the
    target's tokens; `source` and `target` are our tokenizers of both sides, see
    `export.tokenizers`.

    Raises ValueError if `proto` is not such a model. A call raises an error for
    text that is not UTF-8.
    """

    # Set with `proto`.
    source: typing.Any
    target: typing.Any
    _vocabulary: typing.Any
    # Methods below replace and call private ones of KerasHub 0.32; the tests of
    # tests/export/keras_hub_task fail where another version differs.
    backbone_cls = TransformerBackbone

    def __init__(self, proto: typing.Any = None, **kwargs: typing.Any):
        self._add_special_token("<s>", "start_token")
        self._add_special_token("</s>", "end_token")
        self._add_special_token("<pad>", "pad_token")
        super().__init__(proto=proto, **kwargs)

    @property
    def num_given_tokens(self) -> int:
        """Number of ids of a source that are the decoder's: 1 for both tags."""
        return int(self.source.has_both_tags)

    def set_proto(self, proto: typing.Any) -> None:
        """Sets and validates the SentencePiece models."""
        self.source = self.target = None
        super().set_proto(proto)
        if proto is not None:
            # Further pieces only split text.
            size = self._vocabulary_size = self.target.vocabulary_size
            self._vocabulary = vocabulary = self._vocabulary[:size]
            self._token_to_id_map = dict(zip(vocabulary, range(size)))

    def _set_proto_tf(self, proto):
        tokenizer = load_tokenizer(proto)
        self.source, self.target = tokenizer.source, tokenizer.target
        # KerasHub's methods call it, but its own would have other ids.
        self._sentence_piece = types.SimpleNamespace(
            tokenize=self._tokenize_targets, detokenize=self.target.detokenize
        )

    def _set_proto_spm(self, proto):
        super()._set_proto_spm(self.target.proto)

    def tokenize(self, inputs: TensorLike) -> Tensor:
        """Returns the ids of targets; ids of a preprocessor are unchanged."""
        self._check_vocabulary()
        # Of TensorFlow or of Keras' backend.
        if "int32" in str(getattr(inputs, "dtype", "")):
            return inputs
        return self._tokenize_tf(inputs)

    def _tokenize_targets(self, text):
        ids = _tokenize_texts(self.target, text)
        if self.add_bos:
            ids = tf.concat([tf.fill([ids.nrows(), 1], BEGIN_ID), ids], 1)
        if self.add_eos:
            ids = tf.concat([ids, tf.fill([ids.nrows(), 1], END_ID)], 1)
        if self.compute_dtype == "string":
            return ids.with_values(self.target.ids_to_tokens(ids.values))
        return ids

    @classmethod
    def from_directory(
        cls, directory: ModelDirectory, **kwargs: typing.Any
    ) -> typing.Self:
        """Returns the tokenizer of a ModelDirectory."""
        # Raises InputError if its files do not fit.
        directory.load_tokenizer()
        return cls(directory.read_vocabulary(), **kwargs)


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSeq2SeqLMPreprocessor(
    FromPresetMixin, keras_hub.models.Seq2SeqLMPreprocessor
):
    """Tokenizes and packs `encoder_text` and `decoder_text`.

    As in training, a source ends with the end id, and a target also begins with
    the begin id. Texts are padded or truncated to `encoder_sequence_length` and
    `decoder_sequence_length` ids.

    In models of several languages, texts without tags are from
    `source_language` into `target_language`, codes that may be set at any time.
    With tags of both languages the target's follows the begin id.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer: TransformerTokenizer,
        encoder_sequence_length: int = _SEQUENCE_LENGTH,
        decoder_sequence_length: int = _SEQUENCE_LENGTH,
        source_language: str | None = None,
        target_language: str | None = None,
        **kwargs: typing.Any,
    ):
        lengths = encoder_sequence_length, decoder_sequence_length
        super().__init__(tokenizer, *lengths, **kwargs)
        self.source_language = source_language
        self.target_language = target_language

    @property
    def languages(self) -> Languages:
        """Languages of the model, with those of texts without tags.

        Raises InputError if the model lacks a language.
        """
        languages = Languages.from_tokenizer(self.tokenizer)
        return languages.select(self.source_language, self.target_language)

    def build(self, input_shape: typing.Any) -> None:
        """Creates the packers."""
        super().build(input_shape)
        self.encoder_packer = keras_hub.layers.StartEndPacker(
            end_value=self.tokenizer.end_token_id,
            pad_value=self.tokenizer.pad_token_id,
            sequence_length=self.encoder_sequence_length,
            return_padding_mask=True,
        )

    def call(
        self,
        x: typing.Any,
        y: typing.Any = None,
        sample_weight: typing.Any = None,
        **lengths: typing.Any,
    ) -> typing.Any:
        """Returns inputs, labels and weights; see Seq2SeqLMPreprocessor."""
        return super().call(self._tokenize(x), y, sample_weight, **lengths)

    def generate_preprocess(
        self, x: typing.Any, **lengths: typing.Any
    ) -> dict[str, Tensor]:
        """Returns inputs of the prefixes of targets, without labels."""
        if not isinstance(x, dict):
            x = {"encoder_text": x, "decoder_text": self._empty_decoder_text(x)}
        return super().generate_preprocess(self._tokenize(x), **lengths)

    def _tokenize(self, texts):
        """Returns ids instead of texts, with the decoder's tags at targets."""
        # KerasHub, too, keeps text off other devices.
        with tf.device("cpu"):
            sources, targets = (
                tf.convert_to_tensor(texts[name], tf.string)
                for name in ("encoder_text", "decoder_text")
            )
            source = self._tokenize_sources(tf.reshape(sources, [-1]))
            target = tf.reshape(targets, [-1])
            target = _tokenize_texts(self.tokenizer.target, target)
            count = self.tokenizer.num_given_tokens
            target = tf.concat([source[:, :count], target], axis=1)
            ids = {"encoder_text": source[:, count:], "decoder_text": target}
            if sources.shape.rank == 0:
                return {name: rows[0] for name, rows in ids.items()}
            return ids

    def _tokenize_sources(self, text):
        languages = self.languages
        codes = [getattr(languages, side) for side in languages.tag_sides]
        tagged = add_tags(text, [f">>{code}<<" for code in codes], languages)
        ids = _tokenize_texts(self.tokenizer.source, tagged)
        if None in codes:
            # What a text must begin with; blank text needs no tag.
            count = len(codes) - codes.index(None)
            pattern = f"(?:{tag_pattern(languages.codes)}){{{count}}}(?s:.*)"
            is_tagged = tf.strings.regex_full_match(text, pattern)
            tf.debugging.Assert(
                tf.reduce_all(is_tagged | (ids.row_lengths() == 0)),
                ["A text lacks a tag: set the languages of the preprocessor."],
            )
        return ids

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "source_language": self.source_language,
            "target_language": self.target_language,
        }

    @classmethod
    def from_directory(
        cls, directory: ModelDirectory, **kwargs: typing.Any
    ) -> typing.Self:
        """Returns the preprocessor of a ModelDirectory, with its languages."""
        tokenizer = TransformerTokenizer.from_directory(directory)
        languages = Languages.from_directory(directory, tokenizer)
        for side in ("source", "target"):
            if (code := getattr(languages, side)) in languages.codes:
                kwargs.setdefault(f"{side}_language", code)
        return cls(tokenizer, **kwargs)


def _tokenize_texts(tokenizer, text):
    """Returns the ids of texts, string [B], without end ids: ragged int32."""
    # `keras.utils.set_random_seed` clears it.
    with tf.init_scope():
        tokenizer.restore_resources()
    # Our tokenizers would silently replace other bytes.
    valid_text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    is_utf8 = tf.reduce_all(text == valid_text)
    tf.debugging.Assert(is_utf8, ["Text is not UTF-8; convert it first."])
    text = tokenizer.mark_case(tokenizer.clean_text(text))
    return tokenizer.tokenize(text)[:, :-1]
