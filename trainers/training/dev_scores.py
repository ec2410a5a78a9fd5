"""BLEU or F1 on dev, and the ranking of steps by dev.

With --dev_bleu_sentences or --dev_f1_sentences, the score of the model's
output decides which step is the best; otherwise the loss of the references.
"""

import itertools
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from export.translators.translator import Translator
from keras_transformer.config import END_ID
from trainers.batches.token_pairs import decode_pairs
from trainers.scores.bleu_tokenizers import choose_tokenizer, make_bleu

if typing.TYPE_CHECKING:
    from export.parsing.linearization import SymbolVocabulary
    from export.parsing.parser import Parser
    from trainers.batches.token_pairs import TokenPairs
    from trainers.training.training_base import TrainingBase
    from trainers.training.training_inputs import TrainingInputs
    from trainers.training.training_options import TrainingOptions

# Keys in an evaluation, and names in reports; higher is better.
SCORE_TITLES = {"bleu": "BLEU", "f1": "F1"}
# Key in an evaluation of the number of sentences that its score is of.
SENTENCES = "sentences"


def score_name(evaluation: Mapping[str, float]) -> str | None:
    """Returns the key of an evaluation's score, or None."""
    return next((name for name in SCORE_TITLES if name in evaluation), None)


def has_plateaued(
    history: Sequence[Mapping[str, float]], patience: int
) -> bool:
    """Whether the last `patience` > 0 evaluations brought no improvement.

    Equal scores at the start do not count: BLEU may stay 0 for long.
    """
    if not patience or not history:
        return False
    scores = [_comparable_score(each, history[-1]) for each in history]
    scores = [score for score in scores if score is not None]
    values = scores or [-each["loss"] for each in history]
    best = values.index(max(values))
    if scores and best == 0:
        best = sum(1 for _ in itertools.takewhile(values[0].__eq__, values)) - 1
    return len(values) - 1 - best >= patience


def rank_evaluations(
    history: Sequence[dict[str, float]],
) -> list[dict[str, float]]:
    """Returns the evaluations, best first, earliest first among equals.

    Compares the score that the latest evaluation has, then the loss. Scores of
    other sentences than the latest's come last.
    """

    def rank(evaluation):
        score = _comparable_score(evaluation, history[-1])
        return score is None, -(score or 0.0), evaluation["loss"]

    return sorted(history, key=rank)


def _comparable_score(evaluation, other):
    """Returns the score, or None unless the other has one of the same kind."""
    name = score_name(other)
    if name in evaluation and evaluation.get(SENTENCES) == other.get(SENTENCES):
        return evaluation[name]
    return None


class DevBleu:
    """BLEU of `sentences` dev pairs, evenly spaced.

    The references are decoded from the stored tokens, so they have the
    vocabulary's normalization; final scores use the original text.
    """

    def __init__(
        self,
        model: "TrainingBase",
        tokenizer: typing.Any,
        pairs: "TokenPairs",
        sentences: int,
        tokenize: str,
    ):
        self._translator = Translator.from_model(model, tokenizer)
        self._metric = make_bleu(tokenize)
        indices = evenly_spaced_indices(pairs, sentences)
        texts = decode_pairs(tokenizer, pairs, indices)
        self._sources, self._references = texts
        self.num_sentences = len(indices)

    def __call__(self) -> float:
        """Returns the BLEU of the current weights."""
        translations = self._translator.translate(self._sources)
        texts = [translation.text for translation in translations]
        return self._metric.corpus_score(texts, [self._references]).score


class DevF1:
    """EVALB's F1 of `sentences` dev trees, evenly spaced.

    Gold trees have the stored symbols, over words named by their token ids; ids
    of at least `first_word_id` begin a word. As for the loss, trees with a
    label or tag that train lacks and trees over --max_tokens are excluded;
    final scores use the original trees.
    """

    def __init__(
        self,
        parser: "Parser",
        first_word_id: int,
        symbols: "SymbolVocabulary",
        pairs: "TokenPairs",
        sentences: int,
    ):
        # nltk takes seconds to load.
        from export.parsing.linearization import delinearize
        from trainers.scores.brackets import score_brackets

        self._parser = parser
        self._score_brackets = score_brackets
        indices = evenly_spaced_indices(pairs, sentences)
        self.num_sentences = len(indices)
        self._sources = [pairs.sources([index]) for index in indices]
        self._words = [_name_words(ids, first_word_id) for ids in self._sources]
        targets = [pairs.targets([index]) for index in indices]
        self._gold = [
            delinearize(symbols.decode(ids[ids != END_ID]), words)
            for ids, words in zip(targets, self._words)
        ]

    def __call__(self) -> float:
        """Returns the F1 of the current weights."""
        parses = self._parser.parse_ids(self._sources, self._words)
        trees = [best.tree for best, *_ in parses]
        return self._score_brackets(trees, self._gold).overall.f1


def make_dev_scores(
    model: "TrainingBase", inputs: "TrainingInputs", options: "TrainingOptions"
) -> dict[str, DevBleu] | dict[str, DevF1]:
    """Returns a dict of DevBleu or DevF1 as the TrainingOptions say.

    The name is "bleu" or "f1", or for each direction of a mixture "bleu/en-de".
    """
    directory = inputs.directory
    if sentences := options.dev_bleu_sentences:
        tokenizer = directory.load_tokenizer()
        return {
            "/".join(filter(None, ["bleu", "-".join(direction)])): DevBleu(
                model,
                tokenizer,
                pairs,
                sentences,
                options.tokenize or choose_tokenizer(direction[1]),
            )
            for direction, pairs in inputs.dev_by_direction.items()
        }
    if sentences := options.dev_f1_sentences:
        # nltk takes seconds to load.
        from export.parsing.parser import Parser, load_symbols
        from export.parsing.word_tokenizer import WordTokenizer

        symbols = load_symbols(directory)
        words = WordTokenizer(directory.read_vocabulary())
        parser = Parser(model, words, symbols)
        # The flag needs it, see `load_inputs`.
        dev: typing.Any = inputs.dev
        first = words.first_word_id
        return {"f1": DevF1(parser, first, symbols, dev, sentences)}
    return {}


def evenly_spaced_indices(pairs: "TokenPairs", count: int) -> np.ndarray:
    """Returns the indices of `count` pairs, int [N]."""
    stride = max(len(pairs) // count, 1)
    return np.arange(0, len(pairs), stride)[:count]


def _name_words(ids, first_word_id):
    """Returns a name for each word of a source: its token ids."""
    names = []
    for token in ids[ids != END_ID].tolist():
        if token >= first_word_id:
            names.append(f"{token}")
        else:
            names[-1] += f"-{token}"
    return names
