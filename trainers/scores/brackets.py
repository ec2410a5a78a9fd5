"""Bracket F1 of trees, as EVALB computes it with COLLINS.prm.

Brackets (label, start, end) count as a multiset, summed over all sentences.
Tags of single words and TOP do not count. Words tagged as punctuation are
removed first, and with them empty brackets; ADVP and PRT are one label.

If two trees differ in which words are punctuation, EVALB (Sekine and Collins
1997; Black et al. 1991) skips the sentence, which favors a parser that predicts
tags. Here it counts, without the words that are punctuation in the gold tree;
EVALB's scores are reported as well.
"""

import collections
import dataclasses
import itertools
import operator
import typing
from collections.abc import Sequence

import numpy as np
from sacrebleu.significance import estimate_ci

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.parsing.linearization import delinearize
from export.parsing.parser import Parser, load_symbols
from export.parsing.trees import OPEN, WORD, traverse, tree_words
from export.parsing.word_tokenizer import WordTokenizer
from export.translators.batches import BATCH_TOKENS, map_in_batches, pad_ids
from keras_transformer.config import END_ID
from trainers.scores.evaluation import (
    BOOTSTRAP_SAMPLES,
    BOOTSTRAP_SEED,
    Interval,
)
from trainers.scores.score_records import save_scores

if typing.TYPE_CHECKING:
    from nltk.tree import Tree

    from export.model_directory import ModelDirectory
    from export.translators.graph_translator import GraphTranslator

# Maximum words of a short sentence, punctuation included, as in EVALB.
SHORT = 40
SIGNATURE = (
    "brackets:labeled multisets|prm:COLLINS|excluded:TOP , : `` '' .|"
    "equal:ADVP PRT|punctuation:gold's where tags differ"
)

_DELETED = frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."])
_EQUAL = {"PRT": "ADVP"}


@dataclasses.dataclass(frozen=True)
class BracketCounts:
    """Counts over sentences, and the scores (0 to 100) computed from them.

    Words exclude punctuation; `tagged` words have the gold tag. `matched`,
    `gold` and `predicted` are brackets, `crossing` predicted ones that overlap
    a gold one without nesting. All brackets of `complete` sentences match.
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
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return float(_f1(self.matched, self.gold, self.predicted))

    @property
    def scores(self) -> dict[str, float]:
        """The scores by name; crossing is per sentence."""
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
            "{tagging_accuracy:.2f}, crossing {average_crossing:.2f} per "
            "sentence, over {sentences:,} sentences"
        ).format(**self.scores, sentences=self.sentences)

    def record(self) -> dict[str, typing.Any]:
        """Returns scores and counts as a dict for scores.json."""
        scores = {name: round(value, 4) for name, value in self.scores.items()}
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
    def lines(self) -> list[str]:
        """The lines to print."""
        lines = [
            f"All lengths: {self.overall}",
            self.interval.line("F1 "),
            f"At most {SHORT} words: {self.short}",
            f"Rules: {SIGNATURE}",
        ]
        skipped = self.overall.sentences - self.evalb.sentences
        if skipped:
            lines.append(
                f"EVALB skips {skipped:,} of these sentences, in which "
                "punctuation was tagged as a word or a word as punctuation: "
                f"F1 = {self.evalb.f1:.2f} without them, "
                f"{self.evalb_short.f1:.2f} at most {SHORT} words."
            )
        return lines

    def record(self) -> dict[str, typing.Any]:
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


def score_brackets(
    predicted: Sequence["Tree"], gold: Sequence["Tree"]
) -> BracketScores:
    """Returns the scores of normalized trees.

    InputError if the lists are empty or differ in length, or two trees have
    different words.
    """
    if len(predicted) != len(gold) or not gold:
        raise InputError(
            f"Expected a predicted tree for each gold tree, got "
            f"{len(predicted):,} for {len(gold):,}; parse the same file."
        )
    rows, is_short, in_evalb = [], [], []
    pairs = zip(map(_flatten, predicted), map(_flatten, gold))
    for number, (output, reference) in enumerate(pairs, 1):
        if output.words != reference.words:
            raise InputError(
                f"Expected the words of the gold tree of sentence {number:,}, "
                f"{' '.join(reference.words)!r}, got "
                f"{' '.join(output.words)!r}."
            )
        words, mask = reference.words, reference.mask
        is_same = _select(words, output.mask) == _select(words, mask)
        output_mask = output.mask if is_same else mask
        rows.append(_count(output.select(output_mask), reference.select(mask)))
        is_short.append(len(words) <= SHORT)
        in_evalb.append(is_same)
    counts, short, evalb = map(np.array, (rows, is_short, in_evalb))
    return BracketScores(
        overall=_sum(counts),
        short=_sum(counts[short]),
        interval=_interval(counts),
        evalb=_sum(counts[evalb]),
        evalb_short=_sum(counts[short & evalb]),
    )


class _FlatTree(typing.NamedTuple):
    """Words, their tags, and brackets (label, start, end), as lists."""

    words: list
    tags: list
    brackets: list

    @property
    def mask(self):
        """Whether each word is not punctuation, list of bool."""
        return [tag not in _DELETED for tag in self.tags]

    def select(self, mask):
        """Returns tags and a Counter of brackets of the words in a mask."""
        # Number of words in the mask before each word.
        positions = [0, *itertools.accumulate(mask)]
        spans = (
            (_EQUAL.get(label, label), positions[start], positions[end])
            for label, start, end in self.brackets
            if label not in _DELETED
        )
        tags = [_EQUAL.get(tag, tag) for tag in _select(self.tags, mask)]
        brackets = collections.Counter(
            (label, start, end) for label, start, end in spans if start < end
        )
        return tags, brackets


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


def _count(output, reference):
    """Returns the counts of one sentence, in the order of BracketCounts."""
    predicted_tags, predicted = output
    gold_tags, gold = reference
    return (
        int(bool(gold_tags)),
        (gold & predicted).total(),
        gold.total(),
        predicted.total(),
        len(gold_tags),
        sum(map(operator.eq, predicted_tags, gold_tags)),
        _count_crossing(predicted, gold),
        int(bool(gold_tags) and predicted == gold),
    )


def _count_crossing(predicted, gold):
    """Counts predicted brackets that overlap a gold one without nesting."""
    spans = {(start, end) for _, start, end in gold}
    return sum(
        count
        for (_, start, end), count in predicted.items()
        if any(
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
    mean, half_width = estimate_ci(_f1(*np.transpose(sums)))
    return Interval.around(mean, half_width, BOOTSTRAP_SEED)


def _percent(count, total):
    return 100 * count / max(1, total)


def _f1(matched, gold, predicted):
    return 200 * matched / np.maximum(1, gold + predicted)


def score_parser(
    directory: "ModelDirectory",
    gold: Sequence["Tree"],
    data: dict[str, str],
    run_info: dict[str, str],
    search: dict[str, typing.Any] | None = None,
    batch_tokens: int = BATCH_TOKENS,
    unconstrained: bool = False,
) -> tuple[list[str], list[str]]:
    """Parses the sentences of gold trees, scores them and saves the scores.

    Returns the best trees as texts, and the lines to print. `gold` are
    normalized trees; for `data` and `run_info` see `save_scores`. `search` has
    other values of beam_size or alpha. `unconstrained` also searches without
    the grammar, and counts outputs that are not trees.
    """
    search = search or {}
    parser = Parser.from_directory(
        directory.path, batch_tokens=batch_tokens, **search
    )
    words = [tree_words(tree) for tree in gold]
    print(
        f"Parsing {len(gold):,} sentences, beam {parser.beam_size}.", flush=True
    )
    with ProgressBar("Parsing", len(gold), "sentences") as bar:
        parses = parser.parse(map(" ".join, words), on_progress=bar.update)
    best = [candidates[0] for candidates in parses]
    scores = score_brackets([parse.tree for parse in best], gold)
    record, lines = scores.record() | {"sentences": len(gold)}, scores.lines
    if unconstrained:
        from export.translators.graph_translator import GraphTranslator

        translator = GraphTranslator(parser.model, **search)
        broken = count_broken(translator, directory, words, batch_tokens)
        record["broken_without_grammar"] = broken
        lines.append(
            f"Without the grammar {broken:,} of {len(gold):,} outputs "
            f"({broken / len(gold):.1%}) are not trees over exactly the words."
        )
    config = directory.read_config().replace(**search)
    save_scores(directory, parser.model, record, config, data, run_info)
    return [parse.text for parse in best], lines


def count_broken(
    translator: "GraphTranslator",
    directory: "ModelDirectory",
    words: Sequence[Sequence[str]],
    batch_tokens: int = BATCH_TOKENS,
) -> int:
    """Counts outputs that are not a tree over exactly a sentence's words.

    `translator` has no grammar; `words` are those of each sentence.
    """
    # Not at the top: JAX needs no TensorFlow.
    from export.translators.graph_translator import IDS_SPEC, trace_once

    symbols = load_symbols(directory)
    tokenizer = WordTokenizer(directory.read_vocabulary())
    sources = tokenizer.encode(list(map(" ".join, words)))
    search = trace_once(
        lambda source: translator.search(source).tokens, IDS_SPEC
    )

    def check_batch(indices):
        tokens = search(pad_ids([sources[i] for i in indices]))
        best = tokens[:, 0].numpy().tolist()
        return [
            _is_broken(ids, symbols, words[i]) for i, ids in zip(indices, best)
        ]

    print("Parsing again without the grammar.", flush=True)
    with ProgressBar("Parsing", len(words), "sentences") as bar:
        lengths = list(map(len, sources))
        return sum(
            map_in_batches(lengths, batch_tokens, check_batch, bar.update)
        )


def _is_broken(ids, symbols, words):
    try:
        # `index` raises ValueError, too, if the end id is missing.
        delinearize(symbols.decode(ids[: ids.index(END_ID)]), words)
    except ValueError:
        return True
    return False
