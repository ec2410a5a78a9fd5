"""The vocabulary of both languages as KerasHub's tokenizer."""

import hashlib

import keras
import keras_hub
import tensorflow as tf
import tensorflow_text as tf_text

from export.errors import InputError
from export.keras_hub_task.backbone import TransformerBackbone
from export.keras_hub_task.directories import FromModelDirectory
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

_IDS = {PAD_ID: "<pad>", UNKNOWN_ID: "<unk>", BEGIN_ID: "<s>", END_ID: "</s>"}

_NOT_UTF_8 = "Text is not UTF-8; convert it first."


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerTokenizer(
    FromModelDirectory, keras_hub.tokenizers.SentencePieceTokenizer
):
    """Splits text into the ids of a model directory's `vocabulary.model`.

    Args:
        proto: SentencePiece model with pad, unknown, begin and end ids 0, 1,
            2 and 3: its bytes, or what SentencePieceTokenizer takes.
        **kwargs: of SentencePieceTokenizer.

    Raises:
        ValueError: it is no such model, or the special ids are other ones;
            in a call: text is not UTF-8. In a graph of TensorFlow that is an
            InvalidArgumentError.
    """

    backbone_cls = TransformerBackbone

    def __init__(self, proto=None, **kwargs):
        self._add_special_token("<s>", "start_token")
        self._add_special_token("</s>", "end_token")
        self._add_special_token("<pad>", "pad_token")
        super().__init__(proto=proto, **kwargs)

    def set_proto(self, proto):
        """Takes another SentencePiece model; see the class.

        Raises:
            ValueError: as the class does.
        """
        super().set_proto(proto)
        if proto is None:
            return
        found = self.get_vocabulary()[: len(_IDS)]
        if found != list(_IDS.values()):
            raise ValueError(
                "A Transformer's vocabulary begins with the pieces <pad>, "
                f"<unk>, <s> and </s>, and this one with {found}; give the "
                "vocabulary.model of a model directory."
            )
        # It refuses control pieces that text can have.
        Tokenizer(self.proto)

    def _set_proto_tf(self, proto):
        # Two tokenizers without names share one model after a SavedModel is
        # loaded; the digest keeps different models apart.
        digest = hashlib.sha256(proto).hexdigest()[:16]
        try:
            self._sentence_piece = tf_text.SentencepieceTokenizer(
                model=proto,
                out_type=self.compute_dtype,
                add_bos=self.add_bos,
                add_eos=self.add_eos,
                name=f"sentencepiece_{digest}",
            )
        except tf.errors.OpError as error:
            raise ValueError(
                "`proto` is no SentencePiece model; give the vocabulary.model "
                "of a model directory, or its bytes."
            ) from error

    def _tokenize_tf(self, inputs):
        inputs = tf.convert_to_tensor(inputs)
        whole = tf.strings.unicode_transcode(inputs, "UTF-8", "UTF-8")
        # SentencePiece would read something else in silence. The text itself
        # stays out of the message, which could not be decoded.
        tf.debugging.Assert(tf.reduce_all(whole == inputs), [_NOT_UTF_8])
        return super()._tokenize_tf(inputs)

    def _tokenize_spm(self, inputs):
        try:
            return super()._tokenize_spm(inputs)
        except UnicodeDecodeError as error:
            raise ValueError(_NOT_UTF_8) from error

    @classmethod
    def of_directory(cls, directory, **kwargs):
        """Returns the tokenizer of a ModelDirectory.

        Raises:
            InputError: it has no vocabulary of both languages.
        """
        tokenizer = directory.load_tokenizer()
        if tokenizer.source is not tokenizer.target:
            raise InputError(
                f"{directory.path} is of a pretrained model with a vocabulary "
                "for each side, which the KerasHub task has not; use "
                "export.translate, or export it (export.saved_model)."
            )
        return cls(tokenizer.proto, **kwargs)
