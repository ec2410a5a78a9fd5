"""Reads a pretrained M2M-100 or NLLB-200: `python -m export.import_nllb`.

    python -m export.import_nllb --hf=DIR --model_dir=runs/nllb

DIR is a directory of Hugging Face's `save_pretrained`, with the tokenizer.
Pickles are never executed. The weights of NLLB-200 that Meta publishes have the
licence CC-BY-NC 4.0, which forbids commercial use; those of M2M-100 have MIT's.
"""

import os
import pathlib

from absl import flags

from export.common import command
from export.translators import search_flags

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "hf",
    None,
    "Directory of save_pretrained: M2M100ForConditionalGeneration and its "
    "M2M100Tokenizer or NllbTokenizer.",
    required=True,
)
flags.DEFINE_string(
    "model_dir", None, "New model directory to write.", required=True
)
search_flags.define_languages()


def main(arguments: list[str]) -> None:
    """Writes a model directory."""
    del arguments
    path = command.new_path("model_dir")
    # TensorFlow's own allocator keeps the gigabytes that are freed.
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    # Not at the top: TensorFlow takes seconds to load.
    from export.pretrained.m2m_reader import read_m2m
    from export.pretrained.pretrained_model import (
        print_next_commands,
        write_pretrained,
    )
    from export.tokenizers.python_tokenizers import load_python_tokenizers
    from export.translators.languages import Languages

    folder = pathlib.Path(FLAGS.hf)
    pretrained = read_m2m(folder)
    tokenizer = load_python_tokenizers(pretrained.vocabulary)
    languages = Languages.from_tokenizer(tokenizer, *pretrained.languages)
    languages = languages.select(FLAGS.source_language, FLAGS.target_language)
    pair = languages.source, languages.target
    write_pretrained(path, folder, pretrained._replace(languages=pair))
    codes = languages.codes
    others = ", ..." if len(codes) > 8 else ""
    print(f"{len(codes)} languages: {', '.join(codes[:8])}{others}")
    if any("_" in code for code in codes):
        print(
            "NLLB-200's weights have the licence CC-BY-NC 4.0: no commercial "
            "use."
        )
    print_next_commands(
        path,
        f"--source_language={languages.source or codes[0]}",
        f"--target_language={languages.target or codes[-1]}",
    )


if __name__ == "__main__":
    command.run(main)
