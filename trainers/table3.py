"""Trains and scores rows of Table 3: `python -m trainers.table3`.

python -m trainers.table3 --rows=base,A1,B16 --scale=0.25 --train_steps=4000 \
    --dataset=text:corpus --source_language=en --target_language=de \
    --set=vocabulary_size=8000 --output_dir=runs/table3

trainers.wmt trains each row on the same data, trainers.evaluate scores it on
the dev split. Each row updates table3.md in --output_dir, which also shows the
paper's scores. Ctrl-C saves; the same command resumes.
"""

import pathlib
import typing

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.processes import run_subcommand
from export.common.storage import write_bytes
from trainers.data import dataset_flags
from trainers.reports.table3_rows import (
    TABLE_3,
    Table3Runs,
    make_table3_page,
    make_table3_rows,
)
from trainers.scores import bleu_tokenizers

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
flags.adopt_module_key_flags(dataset_flags)
flags.adopt_module_key_flags(bleu_tokenizers)

flags.DEFINE_list(
    "rows",
    None,
    f"Rows of the table, from {', '.join(TABLE_3)}; by default all, or only "
    "base with --own. base always comes first.",
)
flags.DEFINE_multi_string(
    "own",
    [],
    "A row of your own as name:field=value,field=value, its changes of base, "
    "such as --own=pre-norm:norm=pre; repeatable.",
)
flags.DEFINE_multi_string(
    "set",
    [],
    "A field of the configuration for every row, such as "
    "--set=vocabulary_size=8000; a row's own fields override it.",
)
flags.DEFINE_float(
    "scale",
    1.0,
    "Factor on d_model, d_ff, d_k and d_v, not on the heads.",
    lower_bound=0.0,
)
command.mark_flags_as_finite("scale")
flags.DEFINE_integer("train_steps", 100_000, "Updates of each row.")
flags.DEFINE_string(
    "output_dir", None, "Folder for rows, data and table.", required=True
)
flags.DEFINE_multi_string(
    "wmt_flag",
    [],
    "A flag of trainers.wmt for every row, such as "
    "--wmt_flag=--precision=mixed_bfloat16; repeatable.",
)
flags.DEFINE_boolean(
    "tokenized",
    False,
    "The text is already tokenized; the same as --tokenize=none.",
)
flags.DEFINE_integer(
    "limit", None, "Score only the first N dev sentences.", lower_bound=1
)

_DATA_FLAGS = (
    *("dataset", "source_language", "target_language"),
    *("data_dir", "manual_dir", "workers"),
)


def main(arguments: list[str]) -> int:
    """Trains and scores the rows and writes the table."""
    del arguments
    names = FLAGS.rows
    if names is None:
        names = ["base"] if FLAGS.own else list(TABLE_3)
    rows = make_table3_rows(
        names, FLAGS.own, FLAGS.set, FLAGS.scale, FLAGS.train_steps
    )
    _validate_corpus(dataset_flags.corpus("text"))
    runs = Table3Runs(
        FLAGS.output_dir,
        command.serialize_flags(*_DATA_FLAGS),
        FLAGS.wmt_flag,
        command.serialize_flags("tokenize", "tokenized", "limit"),
        run_subcommand,
    )
    path = pathlib.Path(FLAGS.output_dir, "table3.md")
    scores: dict[str, typing.Any] = {}
    for number, row in enumerate(rows, 1):
        if runs.read_score(row) is None:
            print(f"Row {row.name}, {number} of {len(rows)}.", flush=True)
            code = runs.train_and_score(row)
            if code > 128:
                print(
                    f"Interrupted in row {row.name}; the same command resumes."
                )
            if code:
                return code
        scores[row.name] = runs.read_score(row)
        if scores[row.name] is None:
            raise InputError(
                f"Row {row.name} has no score after {row.config.train_steps:,}"
                " updates; remove any --wmt_flag that ends a training sooner "
                "or chooses other weights."
            )
        page = make_table3_page(rows, scores, FLAGS.scale)
        write_bytes(path, page.encode("utf-8"))
    print(page, f"Wrote {path}.", sep="\n")
    return 0


def _validate_corpus(corpus):
    if corpus.directions:
        raise InputError(
            f"{corpus.name} is a mixture, of several pairs of languages; "
            "Table 3 is of one pair: give one of its corpora."
        )
    if "dev" not in corpus.splits():
        raise InputError(
            f"Expected a dev split in {FLAGS.dataset} to score the rows on; "
            f"it has {', '.join(corpus.splits())}."
        )


if __name__ == "__main__":
    command.run(main)
