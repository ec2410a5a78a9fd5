"""Vocabularies of ours with every option of SentencePiece that cuts text."""

import functools
import io
import tempfile

import sentencepiece

from export.pretrained.vocabulary import make_vocabulary
from export.tokenizers import sentencepiece_model
from export.tokenizers.python_tokenizers import (
    add_kind,
    join_vocabularies,
)
from tests import made_up_text

# Code points: "b a" is one word, "k" makes two words of one, "d" is nothing.
_RULES = "62 20 61\t62 65\n6B\t6B 20 6B\n64\t\n"
_UNIGRAM = {"model_type": "unigram"}
OPTIONS = {
    "nmt_nfkc": {},
    "nfkc_cf": {"normalization_rule_name": "nfkc_cf", **_UNIGRAM},
    "custom": {"normalization_rule_tsv": _RULES},
    "suffix": {"treat_whitespace_as_suffix": True},
    "lossless_suffix": {
        "treat_whitespace_as_suffix": True,
        "remove_extra_whitespaces": False,
        **_UNIGRAM,
    },
    "lossless": {"remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "char": {"model_type": "char"},
    "bytes": {"byte_fallback": True, "vocab_size": 420},
    "across_words": {"split_by_whitespace": False, **_UNIGRAM},
    "user_symbols": {"user_defined_symbols": ["ba ka", ">>fra<<", "<b>"]},
}
CONTROL = ("<pad>", "<s>", "<mask>")
TAGS = (">>fra<<", ">>deu<<")
# For pieces across words.
_LINES = [*made_up_text.sentences(), *["ba ka. a b"] * 40]


@functools.cache
def proto(name):
    """Returns the bytes of a SentencePiece model of these OPTIONS."""
    return trained(_LINES, **OPTIONS[name])


def trained(lines, **options):
    """Returns the bytes of a SentencePiece model with our ids."""
    settings = {
        **{"model_type": "bpe", "vocab_size": 150, "minloglevel": 2},
        **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
        "hard_vocab_limit": False,
    }
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(options.get("normalization_rule_tsv", ""))
        file.flush()
        if "normalization_rule_tsv" in options:
            options["normalization_rule_tsv"] = file.name
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            **settings | options,
        )
    return model.getvalue()


@functools.cache
def pair(rules=""):
    """Returns a vocabulary of two sides, of which the source's has no Latin.

    Its table has pieces of both languages, tags and control pieces.
    """
    lines = ["你好。世界", "世界,你 好"] * 30
    control = {"control_symbols": ["<mask>"]}
    models = {
        "source": trained(lines, vocab_size=30, **_UNIGRAM, **control),
        "target": trained(_LINES, **_UNIGRAM),
    }
    names = dict.fromkeys(["</s>", "<unk>", *TAGS, *CONTROL])
    for each in models.values():
        pieces = sentencepiece_model.ModelProto.FromString(each).pieces[4:]
        names |= dict.fromkeys(piece.piece for piece in pieces)
    table = {name: number for number, name in enumerate(names)}
    source, target = (
        make_vocabulary(table, spm, 1, None, 0, name).proto
        for name, spm in models.items()
    )
    return join_vocabularies(
        add_kind(source, rules) if rules else source, target
    )
