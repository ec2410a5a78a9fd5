"""Tiny models of several languages, with tags of one kind or the other."""

from export.model_directory import ModelDirectory
from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    add_kind,
    join_vocabularies,
)
from tests import made_up_text
from tests.export import odd_vocabularies, tiny

CODES = ("deu_Latn", "eng_Latn", "fra_Latn")


def vocabulary(kind):
    control = [f">>{code}<<" for code in CODES]
    proto = odd_vocabularies.trained(
        made_up_text.sentences(), control_symbols=control, vocab_size=200
    )
    source = add_kind(proto, LANGUAGE_PAIR) if kind == "pair" else proto
    return join_vocabularies(source, proto)


def write_model(path, kind, model=None, **run):
    model = model or tiny.model(vocabulary_size=200, beam_size=3)
    run = {"dataset": "made up", **run}
    ModelDirectory(path).write(model, vocabulary(kind), run)
    return str(path)
