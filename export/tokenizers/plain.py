"""The tokenizers of a vocabulary without TensorFlow.

For processes that must not load it, such as export.check's, and for other
programs' readers.
"""

import re

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from export.tokenizers.opus_text import OPUS_TEXT, normalize_opus
from export.tokenizers.vocabulary_file import (
    count_listed_pieces,
    read_text_rules,
    split_sides,
)

# Not what stands between the quotation marks of some languages, which may
# begin a sentence as well: no space is in a tag. Python's \s has other spaces
# than RE2's, which reads it in a graph.
TAG = r"[\t\n\f\r ]*(>>[^<>\t\n\f\r ]+<<)"


def split_tag(text):
    """Returns the tag that a str begins with, a list of it, and the rest."""
    found = re.match(TAG, text)
    if not found:
        return [], text
    return [found[1]], text[found.end() :]


class PlainTokenizer:
    """Text to ids and back by one SentencePiece model.

    Args:
        proto: bytes of the model.
    """

    def __init__(self, proto):
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=proto
        )

    def pieces(self, text):
        """Returns a list of str: the pieces of `ids`, without the end."""
        return self._processor.id_to_piece(self.ids(text)[:-1])

    def ids(self, text):
        """Returns a list of int, with the end id."""
        return [*self._processor.encode(text), self._processor.eos_id()]

    def text(self, ids):
        """Returns the text of a list of int, special ones left out."""
        control = self._processor.IsControl
        return self._processor.decode([i for i in ids if not control(i)])


class PlainTableTokenizer(PlainTokenizer):
    """As `tokenizers.TableTokenizer`, and of sources `TaggedTokenizer`.

    Args:
        proto: bytes of a SentencePiece model of `vocabulary_of`.
        split: function of a text to a list of its tags, and the rest.
    """

    def __init__(self, proto, split=lambda text: ([], text)):
        super().__init__(proto)
        self._size = count_listed_pieces(proto)
        self._is_text = find_text_pieces(proto)
        self._split = split

    def ids(self, text):
        """See the base class."""
        processor, unknown = self._processor, self._processor.unk_id()
        tags, rest = self._split(text)
        tags = processor.piece_to_id(tags)
        ids = processor.piece_to_id(processor.encode(rest, out_type=str))
        return [
            *(i if i < self._size else unknown for i in tags),
            *(i if self._is_text[i] else unknown for i in ids),
            processor.eos_id(),
        ]


def find_text_pieces(proto):
    """Returns of each id, as a list of bool, whether a text may have it.

    Not those behind V, of control pieces, and of tags, which are read at the
    beginning of a source alone.

    Args:
        proto: bytes of a SentencePiece model of `vocabulary_of`.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return [
        number < model.trainer_spec.vocab_size
        and piece.type not in (piece.CONTROL, piece.UNKNOWN)
        and not re.fullmatch(TAG, piece.piece)
        for number, piece in enumerate(model.pieces)
    ]


def load_plain_tokenizers(vocabulary):
    """Returns the PlainTokenizers of sources and of targets.

    Args:
        vocabulary: bytes of a model directory's `vocabulary.model`.

    Raises:
        ValueError: they are no SentencePiece model.
    """
    source, target = split_sides(vocabulary)
    if source is target:
        return (PlainTokenizer(vocabulary),) * 2
    return load_plain_source_tokenizer(source), PlainTableTokenizer(target)


def load_plain_source_tokenizer(proto):
    """Returns the PlainTokenizer of a pretrained model's sources.

    Args:
        proto: bytes, the first of `vocabulary_file.split_sides`.

    Raises:
        ValueError: they are no SentencePiece model, or of unknown rules.
    """
    rules = read_text_rules(proto)
    if rules not in _SPLIT:
        raise ValueError(f"There are no rules {rules!r} for text.")
    return PlainTableTokenizer(proto, _SPLIT[rules])


# By the names that vocabularies have of what is done to text first.
_SPLIT = {
    "": split_tag,
    OPUS_TEXT: lambda text: split_tag(normalize_opus(text)),
}
