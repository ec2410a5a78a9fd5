"""Writes a model for Firefox's translation engine: `export.bergamot`.

    python -m export.bergamot --model_dir=runs/mine --output_dir=bergamot
        --sentences=new.en

The engine, Bergamot, runs in browsers, as WebAssembly, and on servers. The
folder has `model.bin`, `vocab.spm` and, with --shortlist, `lex.bin`.
"""

import typing

from absl import flags

from export.common import command
from export.common.storage import atomic_write
from export.lines.files import read_sentences
from export.model_directory import ModelDirectory
from export.pretrained.bergamot_writer import (
    make_bergamot_model,
    measure_multipliers,
    write_bergamot,
)
from export.translators import search_flags
from export.translators.output_vocabulary_files import read_shortlist
from export.translators.translator import Translator

FLAGS = flags.FLAGS

search_flags.define_folders()
flags.DEFINE_string(
    "sentences",
    None,
    "File of source sentences, one per line: from the first 200 the ranges of "
    "int8 numbers are chosen.",
    required=True,
)
flags.DEFINE_string(
    "shortlist",
    None,
    "File of trainers.shortlist, to be written as lex.bin: only the likely "
    "translations of a sentence's tokens are generated.",
)

_NUM_SENTENCES = 200
# The engine takes all likely translations; any allowed number does.
_SHORTLIST_SIZE = 5


def main(arguments: list[str]) -> None:
    """Writes the files of the engine."""
    del arguments
    path = command.new_path("output_dir")
    lines = read_sentences(FLAGS.sentences)[:_NUM_SENTENCES]
    directory = ModelDirectory(FLAGS.model_dir)
    model, tokenizer, _ = directory.load()
    shortlist: typing.Any = None
    if FLAGS.shortlist is not None:
        shortlist = read_shortlist(
            FLAGS.shortlist, tokenizer, model.config, _SHORTLIST_SIZE
        )
    marian = make_bergamot_model(model, directory.read_vocabulary())
    translations = Translator.from_model(model, tokenizer).translate(lines)
    sources = tokenizer.source.encode(lines)
    targets = tokenizer.target.encode([each.text for each in translations])
    multipliers = measure_multipliers(model, zip(sources, targets))
    with atomic_write(path) as temporary:
        temporary.mkdir()
        write_bergamot(marian, multipliers, temporary, shortlist)
    size = sum(file.stat().st_size for file in path.iterdir())
    print(
        f"Wrote {path} ({size / 1e6:.1f} MB). The engine needs gemm-precision "
        "int8shiftAlphaAll; docs/pretrained.md has a program."
    )


if __name__ == "__main__":
    command.run(main)
