"""Strings to what the task is called on, and back."""

import keras
import keras_hub

from export.keras_hub_task.backbone import TransformerBackbone
from export.keras_hub_task.directories import FromModelDirectory
from export.keras_hub_task.tokenizer import TransformerTokenizer

# A batch is padded to these lengths, so they are no longer than most sentences.
_LENGTH = 128


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSeq2SeqLMPreprocessor(
    FromModelDirectory, keras_hub.models.Seq2SeqLMPreprocessor
):
    """Tokenises and packs `encoder_text` and `decoder_text`.

    As the model was trained, a source is its ids and the end id, and a target
    has the begin id in front of them. Longer ones are truncated.

    Args:
        tokenizer: TransformerTokenizer.
        encoder_sequence_length: ids of every source, padding counted.
        decoder_sequence_length: the same of a target.
        **kwargs: of Seq2SeqLMPreprocessor.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer,
        encoder_sequence_length=_LENGTH,
        decoder_sequence_length=_LENGTH,
        **kwargs,
    ):
        super().__init__(
            tokenizer,
            encoder_sequence_length,
            decoder_sequence_length,
            **kwargs,
        )

    def build(self, input_shape):
        """Makes the packers."""
        super().build(input_shape)
        self.encoder_packer = keras_hub.layers.StartEndPacker(
            end_value=self.tokenizer.end_token_id,
            pad_value=self.tokenizer.pad_token_id,
            sequence_length=self.encoder_sequence_length,
            return_padding_mask=True,
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
        }

    @classmethod
    def of_directory(cls, directory, **kwargs):
        """Returns the preprocessor of a ModelDirectory.

        Raises:
            InputError: it has no vocabulary of both languages.
        """
        return cls(TransformerTokenizer.of_directory(directory), **kwargs)
