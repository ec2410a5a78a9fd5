"""A model directory's own answers: `python -m export.serving.model_answers`.

What an export's answers are compared with. The question is one JSON object on
standard input, the answer one on standard output: who compares is a process
without TensorFlow.
"""

import json
import sys

from export import command


def main(arguments):
    """Answers the question on standard input."""
    del arguments
    question = json.load(sys.stdin)
    answer = _ANSWER[question["task"]]
    found = answer(
        question["model_dir"], question["settings"], question["texts"]
    )
    json.dump(found, sys.stdout)


def _translations(model_dir, settings, texts):
    from export.model_directory import ModelDirectory
    from export.translators import shortlist
    from export.translators.translator import Translator

    directory = ModelDirectory(model_dir)
    model, tokenizer = directory.load_model(), directory.load_tokenizer()
    settings = shortlist.read_by(settings, tokenizer, model.config)
    return translations(Translator(model, tokenizer, **settings), texts)


def _parses(model_dir, settings, texts):
    from export.parsing.parser import Parser

    return parses(Parser.from_directory(model_dir, **settings), texts)


_ANSWER = {"translation": _translations, "parsing": _parses}


def translations(translator, texts):
    """Returns a dict of lists with an item for each text.

    `best`: text and score; `n_best`: such pairs, best first; `alignments`:
    text, score and pairs of words; `truncated`: whether the source was cut;
    `scores`: those that `score` gives to the best translations;
    `scores_truncated`: whether it cut source or translation.

    Args:
        translator: Translator.
        texts: list of str.
    """
    best = translator.translate(texts)
    n_best = translator.n_best(texts, translator.beam_size)
    alignments = translator.align(texts)
    spelt = [each.text for each in best]
    return {
        "best": _pairs(best),
        "n_best": [_pairs(row) for row in n_best],
        "alignments": [
            (each.text, each.score, each.alignment) for each in alignments
        ],
        "truncated": [each.source_is_cut for each in best],
        "scores": translator.score(texts, spelt),
        "scores_truncated": [
            pair.source_is_cut or pair.target_is_cut
            for pair in translator.given_ids(texts, spelt)
        ],
    }


def parses(parser, texts):
    """Returns a dict of lists with an item for each text.

    `best`: tree and score; `n_best`: such pairs, best first.

    Args:
        parser: export.parsing.parser.Parser.
        texts: list of str.
    """
    n_best = parser.parse(texts, parser.beam_size)
    return {
        "best": _pairs(row[0] for row in parser.parse(texts)),
        "n_best": [_pairs(row) for row in n_best],
    }


def _pairs(found):
    return [(each.text, each.score) for each in found]


if __name__ == "__main__":
    command.run(main)
