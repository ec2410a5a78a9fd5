"""Scores of a model's own answers to dev sentences, and which step is the best.

The loss of dev is of given targets. What the model answers by itself is scored
where --dev_bleu_sentences or --dev_f1_sentences asks for it; that score then
says which step is the best, and without one the loss does.
"""

import abc

import numpy as np

from export.translators.translator import Translator
from keras_transformer.config import END_ID
from trainers.batches.token_pairs import decode_pairs
from trainers.scores import bleu_tokenizers

# As a measure of dev has them, and as people read them; more is better.
SCORE_TITLES = {"bleu": "BLEU", "f1": "F1"}


def score_name(measure):
    """Returns which score a measure of dev has: a name of TITLES, or None.

    Args:
        measure: dict of step, loss and so on.
    """
    return next((name for name in SCORE_TITLES if name in measure), None)


def has_plateaued(history, patience):
    """Whether dev has not improved for too long.

    Args:
        history: measures, list of dict.
        patience: measures without a better one; 0 for never too long.
    """
    if not patience or not history:
        return False
    return (
        len(history) - 1 - history.index(rank_measures(history)[0]) >= patience
    )


def rank_measures(history):
    """Returns the measures, the best first, of equals the earliest.

    Better is a higher score where the latest measure has one, else a lower
    loss.

    Args:
        history: measures, list of dict.
    """
    name = score_name(history[-1]) if history else None

    def badness(measure):
        return -measure.get(name, 0.0) if name else measure["loss"]

    return sorted(history, key=badness)


class DevScore(abc.ABC):
    """Answers the same dev sentences each time it is called.

    Attributes:
        name: of the score, one of TITLES.
    """

    name: str

    @abc.abstractmethod
    def __call__(self):
        """Returns the score of the weights of the moment, 0 to 100."""


class DevBleu(DevScore):
    """BLEU of translations.

    The references are the stored pieces joined again, so spelling that the
    vocabulary normalises is normalised in them too; final scores are made
    from the text itself.

    Args:
        model: Transformer, with the weights of the moment.
        tokenizer: Tokenizer.
        pairs: TokenPairs of the dev split.
        sentences: how many, from all over the split.
        tokenize: name of sacreBLEU's tokeniser.
    """

    name = "bleu"

    def __init__(self, model, tokenizer, pairs, sentences, tokenize):
        sample = _spread(pairs, sentences)
        self._translator = Translator(model, tokenizer)
        self._metric = bleu_tokenizers.metric(tokenize)
        self._sources, self._references = decode_pairs(tokenizer, pairs, sample)

    def __call__(self):
        """See the base class."""
        found = self._translator.translate(self._sources)
        texts = [translation.text for translation in found]
        return self._metric.corpus_score(texts, [self._references]).score


class DevF1(DevScore):
    """EVALB's F1 of trees (`trainers.scores.brackets`).

    The gold trees are the stored symbols, over words that are told apart by
    their pieces. Trees with a label or tag that the train split lacks are not
    among the stored ones, nor are those longer than --max_tokens: as for the
    loss. Final scores are made from the text itself, of all trees.

    Args:
        parser: export.parsing.parser.Parser, with the weights of the moment.
        words_from: the source ids from here on begin a word.
        symbols: export.parsing.linear.Symbols.
        pairs: TokenPairs of the dev split.
        sentences: how many, from all over the split.
    """

    name = "f1"

    def __init__(self, parser, words_from, symbols, pairs, sentences):
        # nltk takes seconds to load.
        from export.parsing.linear import delinearise
        from trainers.scores.brackets import score_brackets

        self._parser = parser
        self._score = score_brackets
        sample = _spread(pairs, sentences)
        self._sources = [pairs.sources(np.array([one])) for one in sample]
        self._words = [_words(ids, words_from) for ids in self._sources]
        targets = [pairs.targets(np.array([one])) for one in sample]
        self._gold = [
            delinearise(symbols.symbols_of(ids[ids != END_ID]), words)
            for ids, words in zip(targets, self._words)
        ]

    def __call__(self):
        """See the base class."""
        found = self._parser.parse_ids(self._sources, self._words)
        best = [parses[0].tree for parses in found]
        return self._score(best, self._gold).overall.f1


def make_dev_score(model, prepared, plan):
    """Returns the DevScore that a plan asks for, or None.

    Args:
        model: Transformer, with the weights of the moment.
        prepared: Prepared.
        plan: TrainingPlan.
    """
    directory, dev = prepared.directory, prepared.dev
    if plan.dev_bleu_sentences:
        return DevBleu(
            model,
            directory.load_tokenizer(),
            dev,
            plan.dev_bleu_sentences,
            plan.tokenize,
        )
    if plan.dev_f1_sentences:
        # nltk takes seconds to load.
        from export.parsing.parser import Parser, symbols_of
        from export.parsing.words import WordTokenizer

        symbols = symbols_of(directory)
        words = WordTokenizer(directory.read_vocabulary())
        parser = Parser(model, words, symbols)
        sentences = plan.dev_f1_sentences
        return DevF1(parser, words.words_from, symbols, dev, sentences)
    return None


def _spread(pairs, count):
    """Returns numbers of so many pairs, from all over a split."""
    stride = max(len(pairs) // count, 1)
    return np.arange(0, len(pairs), stride)[:count]


def _words(ids, words_from):
    """Returns a name for each word of a source: its pieces' ids."""
    words = []
    for piece in ids[ids != END_ID].tolist():
        if piece >= words_from:
            words.append(f"{piece}")
        else:
            words[-1] += f"-{piece}"
    return words
