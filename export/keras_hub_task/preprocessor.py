"""KerasHub tokenizer and preprocessor: strings to ids and back."""

import keras
import keras_hub
import tensorflow as tf

from export.common.errors import InputError
from export.keras_hub_task.backbone import FromPresetMixin, TransformerBackbone
from export.tokenizers.tokenizer import Tokenizer

# Every batch is padded to this length.
_SEQUENCE_LENGTH = 128


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerTokenizer(
    FromPresetMixin, keras_hub.tokenizers.SentencePieceTokenizer
):
    """Tokenizes text with the `vocabulary.model` of a model directory.

    `proto` is a SentencePiece model with pad, unknown, begin and end ids 0 to
    3: its bytes, or anything else that SentencePieceTokenizer accepts.

    Raises ValueError if `proto` is not such a model. A call raises an error for
    text that is not UTF-8.
    """

    backbone_cls = TransformerBackbone

    def __init__(self, proto=None, **kwargs):
        self._add_special_token("<s>", "start_token")
        self._add_special_token("</s>", "end_token")
        self._add_special_token("<pad>", "pad_token")
        super().__init__(proto=proto, **kwargs)

    def set_proto(self, proto):
        """Sets and validates the SentencePiece model."""
        try:
            super().set_proto(proto)
        except tf.errors.OpError as error:
            raise ValueError("`proto` is not a SentencePiece model.") from error
        if proto is not None:
            # Raises ValueError if special ids are wrong.
            Tokenizer(self.proto)

    def _tokenize_tf(self, inputs):
        inputs = tf.convert_to_tensor(inputs)
        text = tf.strings.unicode_transcode(inputs, "UTF-8", "UTF-8")
        # SentencePiece would silently accept other encodings.
        is_utf8 = tf.reduce_all(text == inputs)
        tf.debugging.Assert(is_utf8, ["Text is not UTF-8; convert it first."])
        return super()._tokenize_tf(inputs)

    @classmethod
    def from_directory(cls, directory, **kwargs):
        """Returns the tokenizer of a ModelDirectory with a joint vocabulary."""
        tokenizer = directory.load_tokenizer()
        if tokenizer.source is not tokenizer.target:
            raise InputError(
                f"Expected a joint vocabulary in {directory.path}, got one for "
                "each side; use export.translate or export.saved_model."
            )
        return cls(tokenizer.proto, **kwargs)


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSeq2SeqLMPreprocessor(
    FromPresetMixin, keras_hub.models.Seq2SeqLMPreprocessor
):
    """Tokenizes and packs `encoder_text` and `decoder_text`.

    As in training, a source ends with the end id, and a target also begins with
    the begin id. Texts are padded or truncated to `encoder_sequence_length` and
    `decoder_sequence_length` ids.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer,
        encoder_sequence_length=_SEQUENCE_LENGTH,
        decoder_sequence_length=_SEQUENCE_LENGTH,
        **kwargs,
    ):
        super().__init__(
            tokenizer,
            encoder_sequence_length,
            decoder_sequence_length,
            **kwargs,
        )

    def build(self, input_shape):
        """Creates the packers."""
        super().build(input_shape)
        self.encoder_packer = keras_hub.layers.StartEndPacker(
            end_value=self.tokenizer.end_token_id,
            pad_value=self.tokenizer.pad_token_id,
            sequence_length=self.encoder_sequence_length,
            return_padding_mask=True,
        )

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
        }

    @classmethod
    def from_directory(cls, directory, **kwargs):
        """Returns the preprocessor of a ModelDirectory."""
        return cls(TransformerTokenizer.from_directory(directory), **kwargs)
