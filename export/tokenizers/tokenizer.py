"""Text to ids and back, eagerly or inside a TensorFlow graph."""

import copy
import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from google.protobuf.message import DecodeError

from export.tokenizers import sentencepiece_model
from export.tokenizers.letter_case import (
    ANY_MARK,
    CODE_WORD,
    TITLE_MARK,
    UPPER_MARK,
    case_patterns,
    has_case_marks,
    mark_case,
    word_pattern,
)
from export.tokenizers.python_tokenizers import has_crashing_piece
from export.tokenizers.tags import SPACE, SourceTags
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from keras_transformer.types import TensorLike

# Of so few, Python marks capitals faster than operations one by one.
_FEW_TEXTS = 100


class Tokenizer(SourceTags, tf.Module):
    """Splits and joins text by a SentencePiece model for both languages.

    Runs the same code eagerly and in a graph, so that a served model has the
    same ids as in training. `vocabulary_size` is V, its number of tokens.

    Raises ValueError if the bytes `proto` are not a SentencePiece model whose
    pad, unknown, begin and end ids are 0, 1, 2 and 3, or if text can become
    one of its control tokens.
    """

    # Itself: a TokenizerPair has one tokenizer for each side.
    source = target = property(lambda self: self)

    def __init__(self, proto: bytes):
        # In a SavedModel loaded in Python, tokenizers with the same name share
        # one model: the digest distinguishes models.
        digest = hashlib.sha256(proto).hexdigest()[:16]
        super().__init__(name=f"tokenizer_{digest}")
        self.proto = proto
        self._model_name = f"sentencepiece_{digest}"
        self._num_loads = 0
        try:
            model = sentencepiece_model.ModelProto.FromString(proto)
            pieces = [each.piece for each in model.pieces]
            self._has_case_marks = has_case_marks(pieces)
            self._pieces = frozenset(pieces)
            if has_crashing_piece(pieces):
                raise ValueError(
                    "This SentencePiece model has an empty piece, or one that "
                    "begins with NUL; train another one without it."
                )
            self._load_model()
            self.vocabulary_size = int(self._id_tokenizer.vocab_size())
        except (tf.errors.OpError, DecodeError) as error:
            raise ValueError("This is not a SentencePiece model.") from error
        self._validate_special_ids()
        self._validate_control_pieces(model.pieces)
        # SentencePiece adds a space to a text. If the space is at the end, its
        # detokenization does not remove it again.
        self._added_space = None
        if model.trainer_spec.treat_whitespace_as_suffix:
            if model.normalizer_spec.remove_extra_whitespaces:
                self._added_space = " +$"
            elif model.normalizer_spec.add_dummy_prefix:
                self._added_space = " $"

    def _is_token(self, text):
        return SPACE + text in self._pieces

    def _validate_special_ids(self):
        try:
            ids = self._id_tokenizer.tokenize("").numpy().tolist()
        except tf.errors.OpError:
            ids = []
        expected = {PAD_ID: "<pad>", UNKNOWN_ID: "<unk>", BEGIN_ID: "<s>"}
        special = {i: self.id_to_token(i) for i in expected}
        if ids != [END_ID] or special != expected:
            raise ValueError(
                "This SentencePiece model has other special ids than pad 0, "
                "unknown 1, begin 2 and end 3; train one with trainers.prepare."
            )

    def _validate_control_pieces(self, pieces):
        """Raises ValueError if a control piece's name is tokenized to it."""
        names = [each.piece for each in pieces if each.type == each.CONTROL]
        # Alone, and before other text.
        for text in [*names, *(f"{name} a" for name in names)]:
            try:
                ids = self._id_tokenizer.tokenize(text).numpy()[:-1].tolist()
            except tf.errors.OpError:
                ids = [END_ID]
            if any(pieces[i].type == pieces[i].CONTROL for i in ids):
                raise ValueError(
                    f"This SentencePiece model takes the text {text!r} for "
                    "its control piece; train one whose control pieces are "
                    "longer, such as </s>."
                )

    def _load_model(self):
        self._num_loads += 1
        self._id_tokenizer = tf_text.SentencepieceTokenizer(
            model=self.proto, add_eos=True, name=self._model_name
        )
        # A copy shares the model, which would otherwise be exported twice.
        self._string_tokenizer = copy.copy(self._id_tokenizer)
        self._string_tokenizer.out_type = tf.string

    def restore_resources(self) -> int:
        """Reloads the model if `tf.random.set_seed` has cleared it.

        Returns the number of times that it was loaded: graphs of earlier ones
        fail.
        """
        try:
            self._id_tokenizer.vocab_size()
        except tf.errors.NotFoundError:
            self._load_model()
        return self._num_loads

    def clean_text(self, text: TensorLike) -> tf.Tensor:
        """Replaces bytes that are not UTF-8 by U+FFFD; drops NUL and marks."""
        # Most normalizations of SentencePiece drop other control characters.
        text = tf.strings.unicode_transcode(
            text, input_encoding="UTF-8", output_encoding="UTF-8"
        )
        text = tf.strings.regex_replace(text, r"\x00", "")
        if self._has_case_marks:
            text = tf.strings.regex_replace(text, ANY_MARK, "")
        return text

    def mark_case(self, text: tf.Tensor) -> tf.Tensor:
        """Returns clean text, string [B], with capitals as marks.

        A text in capitals, or with a capital at each word, becomes a mark and
        small letters, if the vocabulary has the marks, and not the text as one
        token, such as "USA".
        """
        if not self._has_case_marks:
            return text
        marked = text
        for mark, words, capitals in case_patterns():
            # Few texts match.
            indices = tf.where(tf.strings.regex_full_match(marked, words))
            found = tf.gather_nd(marked, indices)
            is_marked = tf.strings.regex_full_match(found, capitals)
            token = tf.strings.join([SPACE, found])
            is_marked &= self._id_tokenizer.string_to_id(token) == UNKNOWN_ID
            small = tf.strings.lower(found, "utf-8")
            small = tf.strings.join([mark, small], " ")
            marked = tf.tensor_scatter_nd_update(
                marked, indices, tf.where(is_marked, small, found)
            )
        return marked

    def _restore_case(self, text):
        """Returns text, string [B], with capitals instead of marks."""
        marks = tf.strings.substr(text, 0, 1, "UTF8_CHAR")
        text = tf.strings.regex_replace(text, ANY_MARK, "")
        return tf.cond(
            tf.reduce_any((marks == UPPER_MARK) | (marks == TITLE_MARK)),
            lambda: _to_capitals(text, marks),
            lambda: text,
        )

    def tokenize(self, text: TensorLike) -> tf.RaggedTensor:
        """Tokenizes text, string [B], to ragged int32 [B, None] with end ids.

        The text is one of `clean_text` or `mark_case`, here and in the next two
        methods. A run of unknown characters becomes one unknown id, in time
        that grows with the square of its length.
        """
        return self._id_tokenizer.tokenize(text)

    def tokenize_with_offsets(
        self, text: TensorLike
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes text, string [B], to ids with their byte offsets.

        Returns the ids of `tokenize`, and start and end of each token in the
        bytes of the text, ragged [B, None].
        """
        return self._id_tokenizer.tokenize_with_offsets(text)

    def split(self, text: TensorLike) -> tf.RaggedTensor:
        """Tokenizes text [B] to strings, ragged; unknown text is unchanged."""
        return self._string_tokenizer.tokenize(text)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Joins ids, int32 [B, T], to text, string [B].

        Skips pad, begin and end ids, and ids outside the vocabulary. Byte
        tokens that are not UTF-8 become U+FFFD.
        """
        is_valid = (ids >= 0) & (ids < self.vocabulary_size)
        text = self._id_tokenizer.detokenize(tf.where(is_valid, ids, PAD_ID))
        if self._added_space:
            text = tf.strings.regex_replace(text, self._added_space, "")
        return self._restore_case(text) if self._has_case_marks else text

    def ids_to_tokens(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the tokens of int32 ids; "<unk>" outside the vocabulary."""
        # Other ids would crash SentencePiece.
        is_valid = (ids >= 0) & (ids < self.vocabulary_size)
        ids = tf.where(is_valid, ids, UNKNOWN_ID)
        return self._id_tokenizer.id_to_string(ids)

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of one id, such as "▁the"."""
        self.restore_resources()
        token = self.ids_to_tokens(tf.constant(token_id))
        return token.numpy().decode("utf-8")

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Tokenizes texts eagerly to int32 arrays."""
        if isinstance(texts, (str, bytes)):
            raise TypeError("Expected a list of texts, not one text.")
        if not texts:
            return []
        self.restore_resources()
        text = self.clean_text(tf.constant(texts))
        if len(texts) > _FEW_TEXTS:
            text = self.mark_case(text)
        elif self._has_case_marks:
            rows = [each.decode() for each in text.numpy()]
            text = tf.constant([mark_case(row, self._is_token) for row in rows])
        ragged = self.tokenize(text)
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        return [values[a:b] for a, b in zip(splits[:-1], splits[1:])]

    def decode(self, ids: TensorLike) -> list[str]:
        """Joins int32 [B, T] ids to texts."""
        self.restore_resources()
        texts = self.detokenize(tf.convert_to_tensor(ids, tf.int32)).numpy()
        return [text.decode("utf-8") for text in texts]


def _to_capitals(text, marks):
    """Returns text, string [B], in capitals as its marks say, string [B]."""
    ragged = tf.strings.split(text, " ")
    words, marks = ragged.values, tf.repeat(marks, ragged.row_lengths())
    begin, letter, rest = (
        tf.strings.regex_replace(words, word_pattern(), group)
        for group in (r"\1", r"\2", r"\3")
    )
    title = tf.strings.join([begin, tf.strings.upper(letter, "utf-8"), rest])
    is_code = tf.strings.regex_full_match(words, CODE_WORD)
    upper = tf.where(is_code, words, tf.strings.upper(words, "utf-8"))
    changed = tf.where(marks == UPPER_MARK, upper, words)
    changed = tf.where(marks == TITLE_MARK, title, changed)
    ragged = ragged.with_values(changed)
    return tf.strings.reduce_join(ragged, axis=1, separator=" ")
