"""Scores of dev sentences while training, against sacreBLEU and by hand."""

import itertools
import re
import types

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from export.parsing.linearization import (
    SymbolVocabulary,
    delinearize,
    linearize,
)
from export.parsing.trees import read_tree
from tests.trainers.helpers import END, token_pairs
from trainers.training import dev_scores, fit
from trainers.training.dev_scores import (
    DevBleu,
    DevF1,
    has_plateaued,
    rank_evaluations,
)


class _Letters:
    """Each id from 4 on is a word; the model's tokenizer in miniature."""

    num_tags, has_both_tags = 0, False
    source = target = property(lambda self: self)

    def decode(self, ids):
        return [" ".join(f"w{i}" for i in row if i > END) for row in ids]


def test_is_the_score_of_the_translations(monkeypatch):
    pairs = [([5, 6, 7, 8, END], [9, 8, 7, 6, END]), ([4, END], [5, 6, END])]
    pairs += [([7, 7, 9, END], [6, 5, 4, 9, END])] * 2
    asked = []

    class Copying:
        """Stands in for the translator: it answers with the source."""

        def translate(self, texts):
            asked.append(list(texts))
            return [type("Found", (), {"text": text}) for text in texts]

    monkeypatch.setattr(
        dev_scores.Translator, "from_model", lambda *_: Copying()
    )
    bleu = DevBleu(None, _Letters(), token_pairs(*zip(*pairs)), 2, "char")
    sources = ["w5 w6 w7 w8", "w7 w7 w9"]
    references = ["w9 w8 w7 w6", "w6 w5 w4 w9"]
    right = sacrebleu.BLEU(tokenize="char").corpus_score(sources, [references])
    assert bleu() == right.score
    assert asked == [sources]


# Gold and answer, over words of these pieces: those from 9 on begin a word.
TREES = [
    (
        "(S (NP (DT a) (NN b)) (VP (VBZ c)) (. d))",
        "(S (NP (DT a) (JJ b)) (NP (VBZ c)) (. d))",
        [10, 5, 4, 11, 12, 10],
    ),
    # Left out: there are two of four.
    ("(S (NN a))", "(S (NN a))", [11]),
    ("(NP (NP (NP (NN a))) (NN b))", "(NP (NP (NN a)) (NN b))", [12, 8, 11]),
    ("(S (NN a))", "(NP (NN a))", [11]),
]


def test_is_the_f1_of_the_trees():
    gold, answers, sources = zip(*TREES)
    gold, answers = (list(map(read_tree, side)) for side in (gold, answers))
    symbols = SymbolVocabulary.from_trees(gold + answers)
    asked = []

    class Knowing:
        """Stands in for the parser: it answers with the trees above."""

        def parse_ids(self, ids, words):
            asked.append([one.tolist() for one in ids])
            trees = [
                delinearize(linearize(answers[place]), each)
                for place, each in zip((0, 2), words)
            ]
            return [[type("Found", (), {"tree": tree})] for tree in trees]

    pairs = token_pairs(
        [[*source, END] for source in sources],
        [[*symbols.encode(linearize(tree)), END] for tree in gold],
    )
    f1 = DevF1(Knowing(), 9, symbols, pairs, 2)
    # Two brackets of three and three are right, and two of three and two.
    assert f1() == pytest.approx(200 * (2 + 2) / (3 + 3 + 3 + 2))
    assert asked == [[[*sources[0], END], [*sources[2], END]]]


@pytest.mark.parametrize(
    ("key", "order"), [("loss", [1, 3, 2, 0]), ("bleu", [0, 2, 1, 3])]
)
def test_the_best_is_the_first_of_equals(key, order):
    history = [
        {"step": step, "loss": 5.0, key: value}
        for step, value in enumerate([3.0, 1.0, 2.0, 1.0])
    ]
    ranked = rank_evaluations(history)
    assert [evaluation["step"] for evaluation in ranked] == order


def test_a_score_decides_about_a_plateau():
    assert not has_plateaued([], 1)
    history = [
        {"step": 10, "loss": 3.0, "f1": 20.0},
        {"step": 20, "loss": 2.0, "f1": 19.0},
        {"step": 30, "loss": 1.0, "f1": 20.0},
    ]
    assert has_plateaued(history, 2)
    assert not has_plateaued(history, 3)
    history[2]["f1"] = 20.1
    assert not has_plateaued(history, 1)
    # Evaluations without the score, or of other sentences, come last.
    others = [{"step": 5, "loss": 0.5}]
    others += [{"step": 7, "loss": 3.0, "f1": 99, "sentences": 7}]
    assert not has_plateaued([*others, *history], 1)
    assert rank_evaluations([*others, *history])[3:] == others


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 7.0]), st.integers(1, 3))),
    st.integers(0, 3),
)
def test_the_loss_decides_among_equal_scores(values, patience):
    history = [
        {"step": step, "bleu": bleu, "loss": loss}
        for step, (bleu, loss) in enumerate(values)
    ]
    ranked = rank_evaluations(history)
    for better, worse in itertools.pairwise(ranked):
        is_tie = better["bleu"] == worse["bleu"]
        assert is_tie or better["bleu"] > worse["bleu"]
        assert not is_tie or better["loss"] <= worse["loss"]
    # Counted one by one, from the first score that differs.
    best, waited, is_tied = 0.0, 0, True
    for bleu, _ in values:
        is_tied = is_tied and bleu == values[0][0]
        waited = 0 if is_tied or bleu > best else waited + 1
        best = max(bleu, best)
    assert has_plateaued(history, patience) == (0 < patience <= waited)


@pytest.mark.parametrize(
    ("keep_best", "ema", "average", "named"),
    [
        (True, 0.0, 5, set()),
        (False, 0.9, 5, {"--keep_best"}),
        (False, 0.0, 0, {"--keep_best"}),
        (False, 0.0, 5, {"--keep_best", "--average_checkpoints=0"}),
    ],
)
def test_advice_for_worse_weights_knows_the_flags(
    capsys, keep_best, ema, average, named
):
    options = types.SimpleNamespace(keep_best=keep_best, ema=ema)
    config = types.SimpleNamespace(average_checkpoints=average)
    advice = fit._advise_weights(options, config)
    last = {"step": 9, "loss": 5.0, "perplexity": 9.0, "accuracy": 0.1}
    last |= {"bleu": 0.0, "sentences": 7}
    for loss, is_worse in ((5.0, False), (4.0, False), (5.1, True)):
        fit._report_final_weights("x", {**last, "loss": loss}, [last], advice)
        _, *warning = capsys.readouterr().out.splitlines()
        assert len(warning) == is_worse
    assert {*re.findall(r"--\w+(?:=\d)?", warning[0])} == named
