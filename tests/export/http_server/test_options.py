"""No option of a request or of the client changes what another does."""

import itertools
import re

import pytest
from absl import flags

from export.lines import line_flags
from export.translators import search_flags
from tests.export import commands
from tests.export.http_server.running import (
    MadeUpModel,
    fields_of_translate,
    request,
    run_server,
)

TEXTS = [
    "a b",
    "one two. three four!\r\n\r\n  - five six\n\n7",
    "Write to tom@example.org, {name} or %s: x\ny",
    "\U0001f600 a b \u2764 c",
    # Above the model's maximum length.
    ", ".join(f"word{number} a" for number in range(400)),
    '<p title="x">one <b>two</b> &amp; three<hr>{x}</p>',
    "  ",
]
# The made-up model uses the words of the text.
SUSPECT = ["", "copied", "copied", "", "copied", "", ""]
# Values of each field, the default first.
FIELDS = {
    "q": [list, str],
    "source": ["auto", "en", None, ""],
    "target": ["fr"],
    "format": ["text", "html", None, ""],
    "alternatives": [0, 1, "2", None],
    "api_key": [None, "x"],
    "suspect": [None, True, "false"],
    "confidence": [None, True, "false"],
    # None of the texts has it.
    "terms": [None, "", {}, {"zebra": "Z"}],
}


@pytest.fixture(scope="module")
def url():
    with run_server(MadeUpModel(), num_threads=1) as url:
        yield url


def ask(url, fields):
    status, content = request(f"{url}/translate", fields)
    assert status == 200, content
    return content


def test_the_best_translation_is_that_of_the_single_option(url):
    assert sorted(FIELDS) == fields_of_translate()
    default = {name: values[0] for name, values in FIELDS.items()}
    options = [
        {name: value} for name, values in FIELDS.items() for value in values
    ]
    expected = {
        kind: ask(url, default | {"q": TEXTS, "format": kind})["translatedText"]
        for kind in ("text", "html")
    }
    assert expected["text"] != expected["html"]
    for one, other in itertools.combinations(options, 2):
        fields = default | one | other
        if fields["terms"] and (
            fields["confidence"] is True or fields["alternatives"] in (1, "2")
        ):
            status, _ = request(f"{url}/translate", fields | {"q": TEXTS})
            assert status == 400
            continue
        kind = "html" if fields["format"] == "html" else "text"
        if fields["q"] is list:
            found = ask(url, fields | {"q": TEXTS})
        else:
            rows = [ask(url, fields | {"q": text}) for text in TEXTS]
            found = {name: [row[name] for row in rows] for name in rows[0]}
        best = found.pop("translatedText")
        reasons = found.pop("suspect", None)
        assert reasons == (SUSPECT if fields["suspect"] is True else None)
        confidences = found.pop("confidence", None)
        assert (confidences is None) == (fields["confidence"] is not True)
        assert best == expected[kind], fields
        assert bool(found) == (fields["alternatives"] in (1, "2"))
        for text, others in zip(best, *found.values()) if found else ():
            assert text not in others
            assert bool(others) == bool(text.strip())


def test_terms_and_confidence(url):
    texts = ["One a two. Four five.", "a", ""]
    fields = {"q": texts, "target": "fr"}
    found = ask(url, fields | {"terms": {"a": "T", "Four": "d e"}})
    assert found == {"translatedText": ["TWO. T ONE FIVE. d e", "T", ""]}
    found = ask(url, fields | {"terms": "a\tT"})
    assert found == {"translatedText": ["TWO. T ONE FIVE. FOUR", "T", ""]}
    # The first word of each sentence has 0.15, the others 0.9.
    found = ask(url, fields | {"confidence": True})["confidence"]
    assert found == [
        pytest.approx((0.15**2 * 0.9**3) ** 0.2, abs=1e-4),
        pytest.approx(0.15, abs=1e-4),
        None,
    ]


def test_a_model_without_alignments():
    """Tags are placed in proportion, and confidence is refused."""
    model = MadeUpModel()
    model.has_alignments = False
    with run_server(model) as url:
        fields = {"q": "<b>one</b> two", "target": "fr", "format": "html"}
        found = ask(url, fields)["translatedText"]
        assert re.sub("</?b>", "", found) == "TWO ONE"
        status, content = request(
            f"{url}/translate", fields | {"confidence": True}
        )
        assert status == 400 and "confidence" in content["error"]


@pytest.mark.parametrize(
    "given",
    [
        {"terms": {"a": ""}},
        {"terms": {"a": 1}},
        {"terms": "a"},
        {"terms": ["a"]},
        {"terms": {"a": "\ud800"}},
        {"terms": {str(number): "a" for number in range(2000)}},
        # What the search would take minutes for.
        {"terms": {"a": "|".join(map(str, range(100)))}},
        {"terms": {"a": "x" * 999, "b": "y", "c": "z"}},
        {"confidence": "perhaps"},
        {"suspect": 1},
    ],
)
def test_wrong_options_are_refused(url, given):
    fields = {"q": "a b c", "target": "fr"}
    status, content = request(f"{url}/translate", fields | given)
    (name,) = given
    assert status == 400 and name in content["error"]


def test_alternatives_are_whole_documents(url):
    fields = {"q": TEXTS[1], "target": "fr", "alternatives": 2}
    assert ask(url, fields)["alternatives"] == [
        "TWO. ONE! FOUR! THREE!\r\n\r\n  - SIX FIVE!\n\n7"
    ]
    (found,) = ask(url, fields | {"q": TEXTS[4]})["alternatives"]
    words = re.findall("WORD[0-9]+", found)
    assert {*words} == {f"WORD{number}" for number in range(400)}
    (found,) = ask(url, fields | {"q": TEXTS[5], "format": "html"})[
        "alternatives"
    ]
    for tag in '<p title="x">', "<b>", "</b>", "<hr>{x}</p>", "&amp;":
        assert found.count(tag) == 1


# Of export.client, which are those of export.translate. The last two decide
# what is translated, so that each is its own reference.
FLAGS = {
    "n_best": "2",
    "scores": "true",
    "alignments": "true",
    "confidence": "true",
    "suspect": "true",
    "terms": "terms.tsv",
    "keep": "emoji",
    "placeholder": "zz+",
    "source_language": "en",
    "target_language": "fr",
    "input": "-",
    "output": "-",
    "keep_elements": "nav",
    "document": "true",
    "format": "html",
}
LINES = ["one two. three", "", "x <b>y</b> z", "a"]


def read_best(lines, given):
    """Returns the best translation of each line of an output format."""
    if "n_best" in given:
        rows = [line.split(" ||| ") for line in lines]
        return [*dict((int(row[0]), row[1]) for row in rows[::-1]).values()][
            ::-1
        ]
    return [line.split("\t")["scores" in given] for line in lines]


def test_the_best_line_is_that_of_the_single_flag(url, tmp_path):
    (tmp_path / "terms.tsv").write_text("zebra\tZ\n", encoding="utf-8")
    with commands.own_flags():
        others = {*flags.FLAGS}
        line_flags.define_translation()
        search_flags.define_terms()
        search_flags.define_languages()
        assert {*flags.FLAGS} - others == {*FLAGS}

    def run(*names):
        given = {name: FLAGS[name] for name in names}
        if "terms" in given:
            given["terms"] = tmp_path / "terms.tsv"
        code, lines, err = commands.run(
            "export.client",
            None,
            LINES,
            f"--url={url}",
            *(f"--{name}={value}" for name, value in given.items()),
        )
        return code, read_best(lines, given), err

    expected = {name: run(name) for name in ("input", "document", "format")}
    assert len({str(lines) for _, lines, _ in expected.values()}) == 3
    refused = set()
    for names in itertools.combinations(FLAGS, 2):
        code, best, err = run(*names)
        if code:
            refused.add(names)
            assert (best, len(err)) == ([], 1)
            continue
        (kind,) = [each for each in expected if each in names][-1:] or ["input"]
        assert (best, err) == (expected[kind][1], [])
    columns = "n_best", "scores", "alignments", "confidence", "suspect"
    # This model has no languages to choose from.
    assert {
        names
        for names in refused
        if not names[0].endswith("_language")
        and not names[1].endswith("_language")
    } == {
        ("n_best", "alignments"),
        ("n_best", "confidence"),
        ("n_best", "suspect"),
        *itertools.product(columns, ("document", "format")),
        # Only documents, and kept placeholders, have patterns of one's own.
        *((each, "placeholder") for each in (*columns, "terms", "keep")),
        *(
            ("placeholder", each)
            for each in ("input", "output", "keep_elements")
        ),
        # Lines and text have no elements.
        *(
            (each, "keep_elements")
            for each in (*columns, "terms", "keep", "input", "output")
        ),
        ("keep_elements", "document"),
    }
