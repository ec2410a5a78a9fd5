"""Bracket F1 of trees, as EVALB computes it with COLLINS.prm.

Brackets (label, start, end) count as a multiset, summed over all sentences.
Tags of single words and TOP do not count. Words tagged as punctuation are
removed first, and with them empty brackets; ADVP and PRT are one label.

Where the trees disagree on which words are punctuation, EVALB (Sekine and
Collins 1997; Black et al. 1991) skips the sentence, which favors a parser that
predicts tags. Here it counts, without the words that are punctuation in the
gold tree; EVALB's figures are reported as well.
"""

import collections
import dataclasses
import itertools
import typing

import numpy as np
import tensorflow as tf
from sacrebleu.significance import estimate_ci

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.parsing.linearization import delinearize
from export.parsing.parser import Parser, load_symbols
from export.parsing.trees import OPEN, WORD, traverse, tree_words
from export.parsing.word_tokenizer import WordTokenizer
from export.translators.batches import (
    BATCH_TOKENS,
    pad_ids,
    translate_in_batches,
)
from export.translators.graph_translator import GraphTranslator
from keras_transformer.config import END_ID
from trainers.scores.evaluation import (
    BOOTSTRAP_SAMPLES,
    BOOTSTRAP_SEED,
    Interval,
)
from trainers.scores.score_records import save_scores

# Maximum words of a short sentence, punctuation included, as in EVALB.
SHORT = 40
SIGNATURE = (
    "brackets:labeled multisets|prm:COLLINS|excluded:TOP , : `` '' .|"
    "equal:ADVP PRT|punctuation:gold's where tags differ"
)

_DELETED = frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."])
_EQUAL = {"PRT": "ADVP"}
_IDS = tf.TensorSpec([None, None], tf.int32)


@dataclasses.dataclass(frozen=True)
class BracketCounts:
    """Counts over sentences, and the scores (0 to 100) computed from them.

    `sentences` have a word; `matched`, `gold` and `predicted` are brackets;
    `tagged` of the `words` without punctuation have the gold tag; `crossing`
    brackets overlap a gold one without nesting; of `complete` sentences all
    brackets match.
    """

    sentences: int
    matched: int
    gold: int
    predicted: int
    words: int
    tagged: int
    crossing: int
    complete: int

    @property
    def f1(self):
        """Harmonic mean of precision and recall."""
        return float(_f1(self.matched, self.gold, self.predicted))

    @property
    def scores(self):
        """The scores by name, a dict of float; crossing is per sentence."""
        return {
            "f1": self.f1,
            "precision": _percent(self.matched, self.predicted),
            "recall": _percent(self.matched, self.gold),
            "complete_match": _percent(self.complete, self.sentences),
            "tagging_accuracy": _percent(self.tagged, self.words),
            "average_crossing": self.crossing / max(1, self.sentences),
        }

    def __str__(self):
        return (
            "F1 = {f1:.2f} (precision {precision:.2f}, recall {recall:.2f}), "
            "complete match {complete_match:.2f}, tags "
            "{tagging_accuracy:.2f}, crossing {average_crossing:.2f} a "
            "sentence".format(**self.scores)
            + f", over {self.sentences:,} sentences"
        )

    def record(self):
        """Returns scores and counts as a dict for scores.json."""
        scores = {name: round(each, 4) for name, each in self.scores.items()}
        return scores | dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class BracketScores:
    """BracketCounts of all sentences and of those of at most `SHORT` words.

    `evalb` and `evalb_short` exclude sentences that EVALB skips; `interval` is
    for the F1 of `overall`.
    """

    overall: BracketCounts
    short: BracketCounts
    interval: Interval
    evalb: BracketCounts
    evalb_short: BracketCounts

    @property
    def lines(self):
        """The lines to print, list of str."""
        lines = [
            f"All lengths: {self.overall}",
            self.interval.line("F1 "),
            f"At most {SHORT} words: {self.short}",
            f"Rules: {SIGNATURE}",
        ]
        skipped = self.overall.sentences - self.evalb.sentences
        if skipped:
            lines.append(
                f"EVALB skips {skipped:,} of these sentences, where "
                "punctuation was tagged as a word or a word as punctuation: "
                f"F1 = {self.evalb.f1:.2f} without them, "
                f"{self.evalb_short.f1:.2f} at most {SHORT} words."
            )
        return lines

    def record(self):
        """Returns the scores as a dict for scores.json."""
        return {
            "metric": "bracket F1",
            "score": round(self.overall.f1, 4),
            "signature": SIGNATURE,
            **self.interval.record(),
            "all": self.overall.record(),
            f"at_most_{SHORT}_words": self.short.record(),
            "evalb": self.evalb.record(),
            f"evalb_at_most_{SHORT}_words": self.evalb_short.record(),
        }


def score_brackets(predicted, gold):
    """Returns the BracketScores of lists of normalized nltk.Trees.

    InputError if the lists are empty or differ in length, or two trees have
    different words.
    """
    if len(predicted) != len(gold) or not gold:
        raise InputError(
            f"Expected a predicted tree for each gold tree, got "
            f"{len(predicted):,} for {len(gold):,}; parse the same file."
        )
    rows, short, agreed = [], [], []
    for number, trees in enumerate(zip(predicted, gold), 1):
        output, right = map(_flatten, trees)
        output_mask, mask = (
            [tag not in _DELETED for tag in tree.tags]
            for tree in (output, right)
        )
        if output.words != right.words:
            raise InputError(
                f"Expected the words of the gold tree of sentence {number:,}, "
                f"{' '.join(right.words)!r}, got {' '.join(output.words)!r}."
            )
        output_words = _select(output.words, output_mask)
        agreed.append(output_words == _select(right.words, mask))
        if not agreed[-1]:
            output_mask = mask
        rows.append(_count(output, output_mask, right, mask))
        short.append(len(right.words) <= SHORT)
    rows, short, agreed = map(np.array, (rows, short, agreed))
    return BracketScores(
        overall=_sum(rows),
        short=_sum(rows[short]),
        interval=_interval(rows),
        evalb=_sum(rows[agreed]),
        evalb_short=_sum(rows[short & agreed]),
    )


class _FlatTree(typing.NamedTuple):
    """Words, their tags, and brackets (label, start, end), as lists."""

    words: list
    tags: list
    brackets: list


def _flatten(tree):
    flat = _FlatTree([], [], [])
    starts = []
    for event, node in traverse(tree):
        if event is OPEN:
            starts.append(len(flat.words))
        elif event is WORD:
            flat.words.append(node[0])
            flat.tags.append(node.label())
        else:
            span = (node.label(), starts.pop(), len(flat.words))
            flat.brackets.append(span)
    return flat


def _select(items, mask):
    return [item for item, keep in zip(items, mask) if keep]


def _count(output, output_mask, right, mask):
    """Returns the counts of one sentence, in the order of BracketCounts."""
    predicted = _counted_brackets(output, output_mask)
    gold = _counted_brackets(right, mask)
    output_tags, tags = (
        [_EQUAL.get(tag, tag) for tag in _select(*each)]
        for each in ((output.tags, output_mask), (right.tags, mask))
    )
    return (
        int(bool(tags)),
        (gold & predicted).total(),
        gold.total(),
        predicted.total(),
        len(tags),
        sum(one == other for one, other in zip(output_tags, tags)),
        _count_crossing(predicted, gold),
        int(bool(tags) and predicted == gold),
    )


def _counted_brackets(tree, mask):
    """Returns a Counter of (label, start, end), without punctuation."""
    # Number of counted words before each word.
    places = [0, *itertools.accumulate(mask)]
    spans = (
        (_EQUAL.get(label, label), places[start], places[end])
        for label, start, end in tree.brackets
        if label not in _DELETED
    )
    return collections.Counter(span for span in spans if span[1] < span[2])


def _count_crossing(predicted, gold):
    spans = {bracket[1:] for bracket in gold}
    return sum(
        count
        for (_, start, end), count in predicted.items()
        if (start, end) not in spans
        and any(
            first < start < last < end or start < first < end < last
            for first, last in spans
        )
    )


def _sum(rows):
    fields = len(dataclasses.fields(BracketCounts))
    return BracketCounts(*map(int, rows.reshape(-1, fields).sum(axis=0)))


def _interval(rows):
    """Resamples sentences (Koehn 2004); sacreBLEU cannot resample F1."""
    brackets = rows[:, 1:4]
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    sums = [
        brackets[generator.integers(len(rows), size=len(rows))].sum(axis=0)
        for _ in range(BOOTSTRAP_SAMPLES)
    ]
    mean, half = estimate_ci(_f1(*np.transpose(sums)))
    return Interval.around(mean, half, BOOTSTRAP_SEED)


def _percent(part, whole):
    return 100 * part / max(1, whole)


def _f1(matched, gold, predicted):
    return 200 * matched / np.maximum(1, gold + predicted)


def score_parser(
    directory,
    gold,
    data,
    provenance,
    search=None,
    batch_tokens=BATCH_TOKENS,
    unconstrained=False,
):
    """Parses the sentences of gold trees, scores them and saves the scores.

    Returns the best trees as texts, and the lines to print. `gold` is a list of
    normalized nltk.Tree; `data` and `provenance` are those of `save_scores`.
    `search` has other values of beam_size and alpha. `unconstrained` also
    searches without the grammar, and counts the outputs that are not trees.
    """
    search = search or {}
    parser = Parser.from_directory(
        directory.path, batch_tokens=batch_tokens, **search
    )
    sentences = [tree_words(tree) for tree in gold]
    print(
        f"Parsing {len(gold):,} sentences, beam {parser.beam_size}.", flush=True
    )
    with ProgressBar("Parsing", len(gold), "sentences") as bar:
        texts = [" ".join(sentence) for sentence in sentences]
        parses = parser.parse(texts, on_progress=bar.update)
    best = [each[0] for each in parses]
    scores = score_brackets([each.tree for each in best], gold)
    record, lines = scores.record() | {"sentences": len(gold)}, scores.lines
    if unconstrained:
        translator = GraphTranslator(parser.model, **search)
        broken = count_broken(translator, directory, sentences, batch_tokens)
        record["broken_without_grammar"] = broken
        lines.append(
            f"Without the grammar {broken:,} of {len(gold):,} answers "
            f"({broken / len(gold):.1%}) are no tree over exactly the words."
        )
    config = directory.read_config().replace(**search)
    save_scores(directory, parser.model, record, config, data, provenance)
    return [each.text for each in best], lines


def count_broken(translator, directory, sentences, batch_tokens=BATCH_TOKENS):
    """Counts outputs that are not a tree over exactly a sentence's words.

    The translator is a GraphTranslator without a grammar.
    """
    symbols = load_symbols(directory)
    tokenizer = WordTokenizer(directory.read_vocabulary())
    sources = tokenizer.encode([" ".join(each) for each in sentences])
    search = tf.function(
        translator.search, input_signature=[_IDS], autograph=False
    )

    def count_batch(batch):
        tokens = search(pad_ids([sources[number] for number in batch])).tokens
        return [
            _is_broken(row, symbols, sentences[number])
            for row, number in zip(tokens[:, 0].numpy().tolist(), batch)
        ]

    print("Parsing again without the grammar.", flush=True)
    with ProgressBar("Parsing", len(sentences), "sentences") as bar:
        lengths = list(map(len, sources))
        return sum(
            translate_in_batches(lengths, batch_tokens, count_batch, bar.update)
        )


def _is_broken(row, symbols, sentence):
    try:
        # A row without the end id raises ValueError, too.
        delinearize(symbols.decode(row[: row.index(END_ID)]), sentence)
    except ValueError:
        return True
    return False
