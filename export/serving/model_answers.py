"""A model directory's own answers: `python -m export.serving.model_answers`.

What export.check compares with. The question is one JSON object on standard
input and the answer one on standard output.
"""

import json
import sys

from absl import flags

from export import command
from export.translators.translator import Translator

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The model directory.", required=True)


def main(arguments):
    """Answers the question on standard input."""
    del arguments
    question = json.load(sys.stdin)
    translator = Translator.from_directory(
        FLAGS.model_dir, **question["settings"]
    )
    json.dump(answer(translator, question["texts"]), sys.stdout)


def answer(translator, texts):
    """Returns a dict of lists with an item for each text.

    `best`: text and score; `n_best`: such pairs, best first; `alignments`:
    text, score and pairs of words; `scores`: those that `score` gives to the
    best translations; `truncated`: whether the source was cut.

    Args:
        translator: TextTranslator.
        texts: list of str.
    """
    best = translator.translate(texts)
    n_best = translator.n_best(texts, translator.beam_size)
    alignments = translator.align(texts)
    return {
        "best": [(each.text, each.score) for each in best],
        "n_best": [[(each.text, each.score) for each in row] for row in n_best],
        "alignments": [
            (each.text, each.score, each.alignment) for each in alignments
        ],
        "scores": translator.score(texts, [each.text for each in best]),
        "truncated": [each.source_is_cut for each in best],
    }


if __name__ == "__main__":
    command.run(main)
