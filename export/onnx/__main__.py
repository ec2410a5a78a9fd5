"""Writes a translator as an ONNX file: `python -m export.onnx`.

    python -m export.onnx --model_dir=runs/demo --output_dir=onnx/demo

The file `translate.onnx` has the whole beam search: ids in, translations out.
With onnxruntime it runs in programs of many languages (docs/ecosystem/onnx.md),
and without TensorFlow in export.translate, export.serve and export.check.
"""

import keras
from absl import flags

from export.common import command
from export.common.storage import atomic_write
from export.model_directory import ModelDirectory
from export.onnx.onnx_model import OnnxModel
from export.onnx.onnx_session import MODEL_FILE, VOCABULARY_FILE
from export.onnx.transformers_files import write_transformers_files
from export.serving.comparison import check_export
from export.serving.export_directory import folder_size
from export.translators import search_flags
from export.translators.output_vocabulary_files import load_output_vocabulary

# The file from text to text.
TEXT_FILE = "translate_text.onnx"

FLAGS = flags.FLAGS

search_flags.define_search()
search_flags.define_target_pieces()
search_flags.define_quantization()
search_flags.define_languages()
search_flags.define_folders()
flags.DEFINE_integer(
    "max_source_tokens",
    512,
    "Maximum number of tokens of a source, the end token included.",
    lower_bound=2,
)
flags.DEFINE_boolean(
    "alignments",
    False,
    "Also write the outputs that word alignments, confidence and documents "
    "with markup need; a search takes somewhat longer.",
)
flags.DEFINE_boolean(
    "text",
    False,
    "Also write translate_text.onnx, from text to text, for programs with "
    "onnxruntime-extensions.",
)
flags.DEFINE_boolean(
    "transformers",
    False,
    "Also write the files of Optimum and transformers.js, which search "
    "themselves: config.json, tokenizer.json, onnx/.",
)
flags.DEFINE_boolean(
    "check",
    True,
    "Run export.check before the folder gets its name; if it fails, nothing is "
    "written.",
)


def main(arguments: list[str]) -> None:
    """Writes an ONNX file and its vocabulary."""
    del arguments
    path = command.new_path("output_dir")
    directory = ModelDirectory(FLAGS.model_dir)
    model, tokenizer, languages = directory.load()
    languages = languages.select(FLAGS.source_language, FLAGS.target_language)
    search = search_flags.read_given_flags(
        (*search_flags.SEARCH, "target_pieces", "quantization")
    )
    onnx_model = OnnxModel(
        model,
        directory.read_vocabulary(),
        languages,
        align=FLAGS.alignments,
        max_source_tokens=FLAGS.max_source_tokens,
        **load_output_vocabulary(search, tokenizer, model.config),
    )
    with atomic_write(path) as temporary:
        temporary.mkdir()
        vocabulary = temporary / VOCABULARY_FILE
        vocabulary.write_bytes(directory.read_vocabulary())
        onnx_model.write_search(temporary / MODEL_FILE)
        if FLAGS.text:
            onnx_model.write_text(temporary / TEXT_FILE)
        if FLAGS.transformers:
            write_transformers_files(
                model,
                directory.read_vocabulary(),
                (languages.source, languages.target),
                temporary,
                FLAGS.quantization,
            )
        if FLAGS.check and keras.backend.backend() == "tensorflow":
            check_export(directory.path, temporary)
        elif FLAGS.check:
            print("Not checked: export.check needs TensorFlow.", flush=True)
    print(f"Wrote {path} ({folder_size(path) / 1e6:.1f} MB).")
    command.print_next(
        command.command_line("export.translate", f"--model={path}")
    )


if __name__ == "__main__":
    command.run(main)
