import pytest
import sacrebleu

from trainers.corpora import EvaluationSet


def test_streams_hold_none_where_a_sentence_has_fewer_references():
    held_out = EvaluationSet(
        sources=("a", "b", "c"),
        references=(("A",), ("B", "B2", "B3"), ("C", "C2")),
    )
    assert held_out.reference_streams() == [
        ["A", "B", "C"],
        [None, "B2", "C2"],
        [None, "B3", None],
    ]


def test_streams_of_an_empty_set():
    assert EvaluationSet((), ()).reference_streams() == []


def test_sacrebleu_scores_each_sentence_against_its_own_references():
    held_out = EvaluationSet(
        sources=("s", "t"),
        references=(
            ("the cat sat on the mat", "a cat was sitting on the mat"),
            ("there is a dog in the house",),
        ),
    )
    metric = sacrebleu.BLEU()
    right = metric.corpus_score(
        ["a cat was sitting on the mat", "there is a dog in the house"],
        held_out.reference_streams(),
    )
    assert right.score == pytest.approx(100)
    assert right.ref_len == 7 + 7
    assert "nrefs:var" in str(metric.get_signature())
    # Against an empty second reference the shorter length 0 would be nearer
    # to a hypothesis of one word, and the brevity penalty would be gone.
    short = sacrebleu.corpus_bleu(
        ["a cat was sitting on the mat", "dog"], held_out.reference_streams()
    )
    assert short.ref_len == 7 + 7


@pytest.mark.parametrize(
    ("sources", "references"),
    [(("a",), ()), ((), (("A",),)), (("a", "b"), (("A",), ("B", " ")))],
)
def test_each_source_has_a_group_of_references_with_text(sources, references):
    with pytest.raises(ValueError):
        EvaluationSet(sources, references)


def test_what_lacks_a_side_is_not_scored():
    every = EvaluationSet(
        ("a", "", "c", " ", "e"), (("A", "A2"), ("B",), (), ("D",), ("E",))
    )
    assert every.scored_indices == [0, 4]
    assert every.subset(every.scored_indices) == EvaluationSet(
        ("a", "e"), (("A", "A2"), ("E",))
    )
