"""EVALB's scores of trees."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from export.common.errors import InputError
from export.parsing.trees import is_preterminal, read_tree, read_trees
from tests.export.parsing.made_trees import TRAIN, normal_trees
from trainers.scores.brackets import SHORT, BracketCounts, score_brackets
from trainers.scores.evaluation import Interval

# Gold, predicted, and what EVALB itself prints of them with COLLINS.prm: the
# brackets matched, of gold and predicted, and crossing; words and right tags.
PRINTED = {
    "another label, another tag": (
        "(S (NP (DT The) (NN cell)) (VP (VBZ divides)) (. .))",
        "(S (NP (DT The) (JJ cell)) (NP (VBZ divides)) (. .))",
        (2, 3, 3, 0, 3, 2),
    ),
    "one bracket too few": (
        "(NP (NP (NP (NN x))) (NN y))",
        "(NP (NP (NN x)) (NN y))",
        (2, 3, 2, 0, 2, 2),
    ),
    "punctuation somewhere else": (
        "(S (NP (NN x)) (, ,) (VP (VB y) (. .)))",
        "(S (NP (NN x) (, ,)) (VP (VB y)) (. .))",
        (3, 3, 3, 0, 2, 2),
    ),
    "ADVP is PRT": (
        "(S (VP (VB go) (PRT (RP up))))",
        "(S (VP (VB go) (ADVP (RP up))))",
        (3, 3, 3, 0, 2, 2),
    ),
    "a crossing bracket": (
        "(S (NP (A a) (B b)) (C c) (VP (D d) (E e)))",
        "(S (A a) (NP (B b) (C c) (D d)) (E e))",
        (1, 3, 2, 1, 5, 5),
    ),
    "no brackets": ("(NN x)", "(VB x)", (0, 0, 0, 0, 1, 0)),
}


def named(printed, **others):
    names = ["matched", "gold", "predicted", "crossing", "words", "tagged"]
    return {**dict(zip(names, printed)), **others}


def test_what_evalb_prints():
    """Of each sentence, and summed over the corpus."""
    for case, (gold, predicted, printed) in PRINTED.items():
        complete = int(printed[0] == printed[1] == printed[2])
        found = score_brackets([read_tree(predicted)], [read_tree(gold)])
        assert found.overall == BracketCounts(
            **named(printed, sentences=1, complete=complete)
        ), case
        assert found.overall == found.short == found.evalb == found.evalb_short
    gold, predicted, printed = zip(*PRINTED.values())
    predicted, gold = map(read_tree, predicted), map(read_tree, gold)
    counts = score_brackets([*predicted], [*gold]).overall
    sums = [sum(column) for column in zip(*printed)]
    assert counts == BracketCounts(**named(sums, sentences=6, complete=3))
    assert counts.scores == pytest.approx(
        {
            "f1": 100 * 22 / 28,
            "precision": 100 * 11 / 13,
            "recall": 100 * 11 / 15,
            "complete_match": 100 * 3 / 6,
            "tagging_accuracy": 100 * 13 / 15,
            "average_crossing": 1 / 6,
        }
    )


def test_sentences_that_evalb_skips_count():
    same = "(S (NP (NN x)) (. .))"
    pairs = [
        (same, same),
        ("(S (NP (NN x)) (. .))", "(S (NP (NN x)) (NN .))"),
        ("(S (NP (NN x) (NN y)) (. .))", "(S (NP (. x)) (NN y) (. .))"),
    ]
    gold, predicted = (
        [read_tree(tree) for tree in side] for side in zip(*pairs)
    )
    # Punctuation counts for the length.
    long = [read_tree(f"(S {'(NN x)' * SHORT} (. .))")]
    found = score_brackets(predicted + long, gold + long)
    assert found.overall.sentences == found.short.sentences + 1
    assert found.short == BracketCounts(
        **named((2 + 2 + 1, 6, 6, 0, 4, 3), sentences=3, complete=2)
    )
    expected = score_brackets(predicted[:1], gold[:1]).overall
    assert found.evalb_short == expected
    assert found.evalb.words == found.evalb_short.words + SHORT
    assert "EVALB skips 2 of these sentences" in found.lines[-1]


def test_a_sentence_of_punctuation_is_none():
    for predicted in ("(. .)", "(S (NN .))"):
        found = score_brackets([read_tree(predicted)], [read_tree("(. .)")])
        assert found.overall == BracketCounts(0, 0, 0, 0, 0, 0, 0, 0)
        assert not any(found.overall.scores.values())
        assert not found.evalb.sentences


def grown(tree, numbers):
    """A tree at random over the same words."""
    nodes = [
        Tree(node.label() if numbers.random() < 0.9 else "NN", list(node))
        for node in tree.subtrees(is_preterminal)
    ]
    while len(nodes) > 1 or numbers.random() < 0.5:
        start = numbers.randrange(len(nodes))
        end = min(len(nodes), start + numbers.choice([1, 2, 2, 3]))
        label = numbers.choice(["NP", "VP", "PRT", "ADVP"])
        nodes[start:end] = [Tree(label, nodes[start:end])]
    return Tree("TOP", nodes)


def slow_counts(predicted, gold):
    """Written from the rules, for two trees, with lists alone."""
    excluded = {"TOP", ",", ".", ":", "``", "''", "-NONE-"}

    def numbered(tree):
        tree = tree.copy(deep=True)
        for number, place in enumerate(tree.treepositions("leaves")):
            tree[place] = number
        return tree

    def counting(tree):
        return [
            n for n, (_, tag) in enumerate(tree.pos()) if tag not in excluded
        ]

    def words(tree, kept):
        return [word for n, word in enumerate(tree.leaves()) if n in kept]

    def brackets(tree, kept):
        found = []
        for node in numbered(tree).subtrees():
            if isinstance(node[0], Tree) and node.label() not in excluded:
                inside = [kept.index(n) for n in node.leaves() if n in kept]
                label = node.label().replace("PRT", "ADVP")
                found.append((label, inside))
        return [bracket for bracket in found if bracket[1]]

    def crosses(one, other):
        one, other = set(one), set(other)
        return one & other and one - other and other - one

    gold_kept, kept = counting(gold), counting(predicted)
    agreed = words(gold, gold_kept) == words(predicted, kept)
    if not agreed:
        kept = gold_kept
    right, ours = brackets(gold, gold_kept), brackets(predicted, kept)
    missed = list(right)
    for bracket in ours:
        if bracket in missed:
            missed.remove(bracket)
    tags, our_tags = (
        [tree.pos()[n][1] for n in places]
        for tree, places in ((gold, gold_kept), (predicted, kept))
    )
    matched = len(right) - len(missed)
    return agreed, BracketCounts(
        sentences=int(bool(tags)),
        matched=matched,
        gold=len(right),
        predicted=len(ours),
        words=len(tags),
        tagged=int(np.sum(np.array(tags) == np.array(our_tags))),
        crossing=sum(
            any(crosses(bracket[1], other[1]) for other in right)
            for bracket in ours
        ),
        complete=int(bool(tags) and matched == len(right) == len(ours)),
    )


@settings(max_examples=30)
@given(normal_trees(), st.integers(0, 1 << 32))
def test_counts_are_those_of_slow_code(gold, seed):
    predicted = grown(gold, random.Random(seed))
    agreed, counts = slow_counts(predicted, gold)
    found = score_brackets([predicted], [gold])
    assert found.overall == counts
    assert found.evalb.sentences == (counts.sentences if agreed else 0)


def test_the_interval_is_that_of_resampled_sentences():
    gold = list(read_trees(TRAIN))
    numbers = random.Random(1)
    predicted = [
        grown(tree, numbers) if numbers.random() < 0.3 else tree
        for tree in gold
    ]
    found = score_brackets(predicted, gold)
    assert found.interval.bootstrap == "bs:1000|seed:12345"
    record = found.record()
    assert record["score"] == pytest.approx(found.overall.f1, abs=1e-4)
    assert record["all"]["gold"] == found.overall.gold
    counts = [slow_counts(*pair)[1] for pair in zip(predicted, gold)]
    rows = np.array([*map(dataclasses.astuple, counts)], float)
    assert found.overall == BracketCounts(*rows.sum(axis=0).astype(int))
    even = np.full(len(rows), 1 / len(rows))
    weights = np.random.default_rng(7).multinomial(len(rows), even, 20_000)
    _, matched, right, ours = (weights @ rows).T[:4]
    low, high = np.quantile(200 * matched / (right + ours), [0.025, 0.975])
    # A thousand samples know a limit to about a tenth of a half width.
    limits = pytest.approx((low, high), abs=0.15 * (high - low))
    assert (found.interval.low, found.interval.high) == limits


def test_the_interval_ends_at_what_is_possible():
    for mean, low, high in ((20, 0, 50), (80, 50, 100)):
        interval = Interval.around(mean, 30, 1)
        assert (interval.low, interval.high) == (low, high)


def test_refusals():
    for predicted, gold, named in (
        (["(NN x)"], ["(NN x)"] * 2, "1 for 2"),
        ([], [], "0 for 0"),
        (["(NN x)", "(NN y)"], ["(NN x)"] * 2, "sentence 2"),
        # Words of punctuation are words.
        (["(S (NN x) (, ,))"], ["(S (NN x) (. .))"], "sentence 1"),
    ):
        with pytest.raises(InputError, match=named):
            score_brackets(
                [*map(read_tree, predicted)], [*map(read_tree, gold)]
            )
