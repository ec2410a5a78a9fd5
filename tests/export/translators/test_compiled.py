"""One sentence at a time, compiled, against the translator of batches."""

import pytest

from export.common.errors import InputError
from export.translators import graphs
from export.translators.translator import Translator
from tests import made_up_text
from tests.export.translators.test_translator import close

LONG = " ".join(["many words"] * 60)
TEXTS = [*made_up_text.sentences()[:12], "", LONG]


@pytest.fixture(scope="module")
def compiled(translator):
    return Translator(
        translator.model,
        translator.tokenizer,
        max_source_tokens=40,
        compiled=True,
    )


@pytest.fixture(scope="module")
def expected(translator):
    # Not the one that other tests use: its sources may be longer.
    kind = type(translator)
    return kind(translator.model, translator.tokenizer, max_source_tokens=40)


def same(found, expected):
    assert [each[0].source_truncated for each in found] == [
        each[0].source_truncated for each in expected
    ]
    for each, other in zip(found, expected, strict=True):
        close(each, other)


def test_the_same_translations_from_few_compilations(
    compiled, expected, monkeypatch
):
    right = expected.n_best(TEXTS, 1)
    made = []
    one_graph = graphs.one_graph

    def noted(function, *signature, **options):
        assert options == {"jit_compile": True}
        made.append(signature[0].shape.as_list())
        return one_graph(function, *signature, **options)

    monkeypatch.setattr(graphs, "one_graph", noted)
    done = []
    found = compiled.n_best(TEXTS, 1, done.append)
    same(found, right)
    assert found[-1][0].source_truncated
    # All but the blank one, each on its own.
    assert done == [1] * (len(TEXTS) - 1)
    # 40 is the limit, to which the long one is cut.
    assert sorted(made) == [[1, 16], [1, 40]]
    compiled.translate(TEXTS[3:6])
    assert len(made) == 2


@pytest.mark.slow
def test_n_best(compiled, expected):
    same(compiled.n_best(TEXTS[:3], 4), expected.n_best(TEXTS[:3], 4))


def same_alignments(translator, other):
    found, expected = translator.align(TEXTS[:3]), other.align(TEXTS[:3])
    same([[each] for each in found], [[each] for each in expected])
    assert [t.alignment for t in found] == [t.alignment for t in expected]
    assert all(t.alignment for t in found)


def test_alignments(compiled, expected):
    same_alignments(compiled, expected)


@pytest.mark.slow
def test_alignments_longer_than_the_first_stage_has_room_for(expected):
    settings = {
        "max_output_extra": 40,
        "min_length": 35,
        "max_source_tokens": 12,
    }
    same_alignments(
        *[
            Translator(
                *(expected.model, expected.tokenizer),
                compiled=compiled,
                **settings,
            )
            for compiled in (True, False)
        ]
    )


def test_a_search_of_its_own(translator):
    both = [
        Translator(
            *(translator.model, translator.tokenizer),
            compiled=compiled,
            beam_size=2,
            alpha=1.0,
            max_output_extra=40,
            min_length=35,
        ).n_best(TEXTS[:2], 1)
        for compiled in (True, False)
    ]
    same(*both)
    # Longer than the first stage has room for.
    ids = translator.tokenizer.encode([each[0].text for each in both[0]])
    assert max(map(len, ids)) > 33


def test_no_room_for_all_the_pieces_there_could_be(translator):
    with pytest.raises(InputError, match="max_output_extra=1001 is more than"):
        Translator(
            *(translator.model, translator.tokenizer),
            compiled=True,
            max_output_extra=1001,
        )


@pytest.mark.parametrize(
    ("version", "before", "after"),
    [
        ("2.21.3", None, f"{graphs._XLA_FLAG}=LIBRARY_FUSION_TYPE_INVALID"),
        (
            "2.21.0",
            "--xla_dump_to=/d",
            f"--xla_dump_to=/d {graphs._XLA_FLAG}=LIBRARY_FUSION_TYPE_INVALID",
        ),
        ("2.21.0", f"{graphs._XLA_FLAG}=+dot", f"{graphs._XLA_FLAG}=+dot"),
        ("2.22.0", None, None),
    ],
)
def test_flags_of_xla(monkeypatch, version, before, after):
    monkeypatch.setattr(graphs.tf, "__version__", version)
    # First of all what is there, so that it comes back.
    monkeypatch.setenv("XLA_FLAGS", before or "")
    if before is None:
        monkeypatch.delenv("XLA_FLAGS")
    graphs.multiply_by_eigen()
    assert graphs.os.environ.get("XLA_FLAGS") == after
