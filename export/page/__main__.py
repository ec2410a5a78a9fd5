"""Writes a page that translates in a browser: `python -m export.page`.

    python -m export.page --model_dir=runs/demo --output_dir=page

Open `index.html` of the folder, or copy the folder to any web server: no
program runs there, and no text leaves the browser. Over HTTPS browsers keep the
page, which then works offline and can be installed.
"""

import shutil

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write
from export.model_directory import ModelDirectory
from export.page.node import check_files
from export.page.page_files import make_files
from export.translators import search_flags

FLAGS = flags.FLAGS

search_flags.define_folders()
flags.DEFINE_boolean(
    "check",
    True,
    "Compare the page's translations with the model's before anything is "
    "written, if Node.js is installed.",
)


def main(arguments: list[str]) -> None:
    """Writes the folder."""
    del arguments
    path = command.new_path("output_dir")
    directory = ModelDirectory(FLAGS.model_dir)
    model, _, languages = directory.load()
    if languages.codes:
        raise InputError(
            f"{FLAGS.model_dir} translates several languages, which the page "
            "cannot choose; serve it with export.serve instead."
        )
    vocabulary = directory.read_vocabulary()
    codes = languages.source, languages.target
    files = make_files(model, vocabulary, codes)
    if FLAGS.check and shutil.which("node"):
        result = check_files(files, model, vocabulary)
        print(f"Checked in Node.js: {result}.", flush=True)
    with atomic_write(path) as temporary:
        temporary.mkdir()
        for name, content in files.items():
            (temporary / name).write_bytes(content)
    size = sum(map(len, files.values()))
    print(f"Wrote {path} ({size / 1e6:.1f} MB); open {path / 'index.html'}.")


if __name__ == "__main__":
    command.run(main)
