"""The flag of commands whose translations may be held to some pieces."""

from absl import flags

flags.DEFINE_multi_string(
    "target_pieces",
    None,
    "File of sentences of the target language, one a line, plain or .gz, such "
    "as that side of the training data; may be repeated. Translations are made "
    "of the pieces in it and of single characters alone, and a step takes less "
    "time. All pieces by default.",
)
