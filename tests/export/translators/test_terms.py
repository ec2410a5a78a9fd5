"""Terms: a file of them, in sentences, in Python and as a command."""

import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from export.common.errors import InputError
from export.loading import load_translator
from export.terms.terms import Term, Terms, request_inputs
from export.translators import int8
from export.translators.backend import Backend
from export.translators.term_ops import find_terms, tokenize_terms, word_edges
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import commands, tiny

TEXTS = [*made_up_text.sentences()[:6], "", "ba ka."]


@pytest.mark.parametrize(
    ("text", "source", "found"),
    [
        ("I like New  York.", "New York", True),
        ("NewYork", "York", False),
        ("two dogs", "dog", False),
        ("two dogs", "dog|dogs", True),
        ("Dogs", "dogs", False),
        ("l'eau", "eau", True),
        ("10,5 105", "10", True),
        ("105", "10", False),
        ("C++11", "C++", True),
        ("a.b", "a.b", True),
        ("axb", "a.b", False),
        ("東京都", "東京", True),
        ("私はIBMで", "IBM", True),
        ("हिन्दी", "हिन", False),
        ("a\\E", "\\E", True),
        ("", "a", False),
    ],
)
def test_terms_are_whole_words_in_python_and_in_the_graph(text, source, found):
    expected = [Term(source.split("|")[-1], "x")] if found else []
    assert Terms([(source, "x")]).find(text) == expected
    in_graph = find_terms(tf.constant([text]), tf.constant([[source, ""]]))
    assert in_graph.numpy().tolist() == [[found, False]]


@settings(max_examples=50)
@given(st.text("ab1é \u0301東-'|\\"), st.text("ab1é \u0301東-'|\\", max_size=4))
def test_the_graph_finds_the_same(text, source):
    try:
        found = bool(Terms([(source, "x")]).find(text))
    except InputError:
        found = False
    in_graph = find_terms(tf.constant([text]), tf.constant([[source]]))
    assert in_graph.numpy().tolist() == [[found]]


def test_terms_may_have_decomposed_characters():
    composed, decomposed = "\u00e9t\u00e9", "e\u0301te\u0301"
    for source, text in (composed, decomposed), (decomposed, composed):
        (term,) = Terms([(source, decomposed)]).find(f"un {text}.")
        # The graph of a server finds it in the text, as it is there.
        assert term == Term(text, composed)


def test_all_terms_of_a_sentence_each_once():
    terms = Terms([("a b", "1"), ("b", "2|3"), ("c|C", "2|3"), ("d", "4")])
    assert terms.find("a b C b") == [Term("a b", "1"), Term("b", "2|3")]
    assert request_inputs([terms.find("d"), []]) == {
        "source_terms": [["d"], [""]],
        "target_terms": [["4"], [""]],
    }


def test_many_terms_cost_what_is_found():
    seconds = []
    for count in (10, 10_000):
        pairs = [(f"ba{n} ka{n}", f"ri{n}") for n in range(count)]
        pairs += [("ba7" + " mu" * n, f"do{n}") for n in range(2, count // 100)]
        terms = Terms(pairs)
        started = time.process_time()
        for _ in range(100):
            assert len(terms.find("ba7 ka7 " + "mu do ri " * 40)) == 1
        seconds.append(time.process_time() - started)
    assert seconds[1] < 20 * seconds[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ba\tri\nka\n", ["Line 2", "1 columns"]),
        (b"ba\tri\tmu\n", ["Line 1", "3 columns"]),
        (b"ba\tri\n\tmu\n", ["Line 2", "empty source"]),
        (b"ba\t | \n", ["Line 1", "empty target"]),
        (b"ba|ka\tri\nmu\tdo\nka\tdo\n", ["Lines 1 and 3", "'ka'"]),
        (b"ba\tri\nka\t\xff\n", ["Line 2", "not UTF-8"]),
        ("ba\tri\nka\t漢字\n".encode(), ["Line 2", "'漢字'", "spells"]),
    ],
)
def test_invalid_files_are_one_line_and_2(model_path, tmp_path, content, words):
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    flag = f"--terms={path}"
    code, lines, err = commands.run("export.translate", model_path, TEXTS, flag)
    assert (code, lines) == (2, [])
    assert err[-1].startswith("Error: ")
    for word in [*words, str(path)]:
        assert word in err[-1]


# No translation of TEXTS has these words by itself.
TERMS = [("ka", "do ri|do riba"), ("ba", "mu"), (TEXTS[0].split()[0], "bàdo")]


def targets_in(terms, source, translation):
    """Whether a translation has each target of its source as whole words."""
    return all(
        any(
            Terms([(target, "x")]).find(translation)
            for target in term.target.split("|")
        )
        for term in terms.find(source)
    )


def test_each_translation_has_its_terms(translator):
    terms, plain = Terms(TERMS), translator.translate(TEXTS)
    rows = translator.n_best(TEXTS, 4, terms=terms)
    begun = translator.align(TEXTS, prefixes=["ri"] * len(TEXTS), terms=terms)
    num_changed = 0
    for index, source in enumerate(TEXTS):
        for each in (begun[index], *rows[index]):
            assert targets_in(terms, source, each.text)
        if source:
            assert begun[index].text.startswith("ri")
            assert begun[index].alignment
        if terms.find(source):
            num_changed += not targets_in(terms, source, plain[index].text)
        else:
            assert rows[index][0].text == plain[index].text
    assert num_changed >= 2


def test_a_document_has_its_terms(translator):
    terms = Terms(TERMS)
    lines = [text for text in TEXTS if text]
    found = translator.translate_document("\n".join(lines), terms=terms)
    for source, text in zip(lines, found.splitlines(), strict=True):
        assert targets_in(terms, source, text)


def test_the_maximum_length_is_raised_for_terms(translator):
    words = " ".join(dict.fromkeys("".join(TEXTS).replace(".", " ").split()))
    terms = Terms([("ka", words)])
    ((long, *_),) = translator.n_best(["ka"], 4, terms=terms)
    assert words in long.text


def test_a_restricted_vocabulary_does_not_restrict_terms(translator, eager):
    search = {"target_pieces": [10, 11, 12], "max_extra_tokens": 2}
    restricted = Translator.from_model(
        translator.model, translator.tokenizer, **search
    )
    terms = Terms(TERMS)
    for source, found in zip(TEXTS, restricted.translate(TEXTS, terms=terms)):
        assert targets_in(terms, source, found.text)


def test_what_takes_no_terms_says_so(model_path, tmp_path):
    compiled = load_translator(model_path, compiled=True)
    with pytest.raises(InputError, match="--compiled"):
        compiled.translate(TEXTS, terms=Terms(TERMS))
    # As IdsBackend does.
    with pytest.raises(InputError, match="KERAS_BACKEND"):
        Backend.validate_terms(compiled.backend, Terms(TERMS))
    (tmp_path / "terms").write_text("ba\tri\n")
    flags = [f"--terms={tmp_path / 'terms'}", "--compiled"]
    code, _, err = commands.run("export.translate", model_path, TEXTS, *flags)
    assert code == 2 and "--compiled" in err[-1]


def test_an_ensemble_has_its_terms(model_path, translator, eager):
    models = [translator.model, tiny.model(seed=6, num_layers=2)]
    ensemble = Translator.from_model(kt.Ensemble(models), translator.tokenizer)
    terms = Terms(TERMS)
    for row, source in zip(ensemble.n_best(TEXTS, 4, terms=terms), TEXTS):
        for each in row:
            assert targets_in(terms, source, each.text)


@pytest.mark.slow
@pytest.mark.skipif(
    not int8.is_supported(),
    reason="the processor cannot multiply int8 exactly",
)
def test_a_quantized_model_has_its_terms(model_path):
    quantized = load_translator(model_path, quantization="int8")
    terms = Terms(TERMS)
    for source, found in zip(TEXTS, quantized.align(TEXTS, terms=terms)):
        assert targets_in(terms, source, found.text)


def test_n_best_has_no_alignments_with_terms_either(model_path, tmp_path):
    (tmp_path / "terms").write_text("ba\tri\n")
    flags = [f"--terms={tmp_path / 'terms'}", "--n_best=2", "--alignments"]
    code, _, err = commands.run("export.translate", model_path, TEXTS, *flags)
    assert code == 2 and "--n_best" in err[-1]


def test_a_term_has_the_tokens_of_its_word_in_two_places(translator):
    tokenizer = translator.tokenizer
    ids, is_wrong = tokenize_terms(tokenizer, tf.constant([["do|ri", "ŵ"]]))
    assert is_wrong.numpy().tolist() == [[False, True]]
    texts = [
        "".join(map(tokenizer.id_to_token, row[row > 0]))
        for row in ids.numpy()[0, 0]
    ]
    assert texts == ["▁do", "▁ri", "do", "ri"]
    edges = word_edges(tokenizer)
    first = ids.numpy()[0, 0, :, 0]
    joins = [False, False, True, True]
    np.testing.assert_array_equal(edges.joins_previous[first], joins)
