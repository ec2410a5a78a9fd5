"""Scores given translations: `python -m export.score --model M ...`.

Line N of --translations is scored as a translation of line N of --input. Each
pair gives one output line: the log-probability of the translation under the
model, end token included, without length penalty. Use it to rerank
translations, filter bitexts or compare models. Lines above the model's maximum
length are truncated; the numbers of such lines are printed at the end.
"""

from absl import flags

from export.common import command
from export.lines import line_flags
from export.lines.streams import process_lines
from export.loading import load_translator
from export.translators import search_flags
from export.translators.translation import Translation

FLAGS = flags.FLAGS

line_flags.define_files()
search_flags.define_batch_tokens()
search_flags.define_languages()
flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory or exported version; repeat it for the mean "
    "log-probability of several model directories.",
    required=True,
)
flags.DEFINE_string(
    "translations", None, "File of the translations to score.", required=True
)


def main(arguments: list[str]) -> None:
    """Scores two files, line by line."""
    del arguments
    translator = load_translator(
        *FLAGS.model,
        batch_tokens=FLAGS.batch_tokens,
        **search_flags.read_given_flags(search_flags.LANGUAGES),
    )

    def score(pairs, on_progress):
        pairs = translator.pairs(*zip(*pairs))
        scores = translator.score_pairs(pairs)
        if on_progress is not None:
            on_progress(len(pairs))
        return [
            [Translation("", score, source_truncated=pair.truncated)]
            for score, pair in zip(scores, pairs)
        ]

    def format_score(index, translations):
        del index
        return [f"{translations[0].score:.6f}"]

    parallel = "translations", FLAGS.translations
    process_lines(
        "Scoring", FLAGS.input, FLAGS.output, score, format_score, parallel
    )


if __name__ == "__main__":
    command.run(main)
