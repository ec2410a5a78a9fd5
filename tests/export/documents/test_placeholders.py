"""Placeholders: each syntax, in any place, once in the translation."""

import collections
import pathlib
import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.documents.placeholder_finder import PlaceholderFinder
from export.documents.placeholders import PAIRS, SYNTAXES
from export.terms.terms import Terms
from tests.export.documents import made_up
from tests.export.documents.made_up import RuleTranslator, keep, shuffle

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = [each for syntax in SYNTAXES for each in syntax.examples]
ADDRESSES = [
    *("https://example.org/Paris_(Texas)", "HTTPS://EXAMPLE.ORG/A", "me@a.org"),
    *("https://a.b/?c=", "https://a.b/c-", "https://a.b/~", "www.a.org"),
    *("http://[2001:db8::1]:8080/a", "ftp://me:pass@a.org:21/", "mailto:a@b.c"),
    *("https://m\u00fcnchen.de/\u00e4", "https://a.b/{id}/%s", "sip:me@a.org"),
    *("http://a.b/?c[]=1&d[0]=2", "https://a.b/c,d;e", "git+ssh://a.b/c.git"),
]
# What people write that looks like it.
PROSE = [
    *("100% sure", "5 % des gens", "50 %discount", "100%sure", "it is 5%."),
    *("$5", "US$5", "A$AP", "$5 and $6, or 7$", "at 10:30: now", "3:4:5"),
    *("C#", "#1 choice", "no. # 1", "I'm @ home", "5@6", "he/she", "and/or"),
    *("1/2/2020", "24/7", "w/o", "[sic]", "see [1] (2)", "`a' and `b'", "R&D"),
    *("a < b > c", "~5", "C: a", "note: b", "\u00ab 100 % \u00bb", "f (x)"),
    *("Hello\\nWorld", "std::string::x", "{see below}", "x -> y", "*a*"),
]
some = settings(max_examples=300, deadline=None, database=None)


def found(text, patterns=()):
    placeholders = PlaceholderFinder(patterns).find(text)
    return [text[each.start : each.end] for each in placeholders]


def upper(text, document_format="html", terms=None):
    def change(text):
        changed = re.sub("TOM|BOSTON", lambda m: m[0].title(), text.upper())
        return " ".join(changed.split()), keep(text)[1]

    translator = RuleTranslator(change)
    return translator.translate_document(text, document_format, terms=terms)


@pytest.mark.parametrize(
    "around",
    ["{}", "see {} here", "({})", "Is it {}?", "{}, or", "\u4f60{}\u3002"],
)
def test_each_syntax_is_found_whole(around):
    for example in EXAMPLES + ADDRESSES:
        assert "".join(found(around.replace("{}", example))) == example


def test_prose_has_no_placeholders():
    assert {text: each for text in PROSE if (each := found(text))} == {}


def test_halves_of_pairs_stay_around_their_text():
    for pair in PAIRS:
        for example in pair.examples:
            opening, _, closing = example.rpartition("text")
            text = f"see {opening}my text{closing} now"
            expected = f"SEE {opening}MY TEXT{closing} NOW"
            assert upper(text, "text") == expected
    text = "see [my ![big cat](a.png)](b.html) now"
    assert upper(text, "text") == "SEE [MY ![BIG CAT](a.png)](b.html) NOW"
    # One half is in another line.
    assert upper("see \\textbf{my\ncat} now", "text") == (
        "SEE \\textbf{MY\nCAT} NOW"
    )


def test_the_page_has_the_table():
    page = (ROOT / "docs/documents.md").read_text("utf-8")
    for each in (*SYNTAXES, *PAIRS):
        assert f"| {each.name} |" in page
        for example in each.examples:
            assert example.replace("|", "\\|") in page


# Parts of words with letters, so that they are sentences.
_words = st.sampled_from(
    ["the", "cat", "is", "here.", "(so)", "100%", "\u4f60"]
)
_texts = st.lists(
    st.one_of(_words, st.sampled_from(EXAMPLES + ADDRESSES)),
    min_size=1,
    max_size=9,
).map(" ".join)


def distort(text):
    """Copies, loses, doubles, swaps or inflects names."""
    generator = random.Random(text)
    words = []
    for word in text.split():
        options = [[word], [], [word, word], [f"{word}s"], [word.lower()]]
        is_name = re.search("Tom|Boston", word)
        words += generator.choice(options) if is_name else [f"w{len(word)}"]
    generator.shuffle(words)
    return " ".join(words), keep(text)[1]


@some
@given(_texts)
def test_each_placeholder_comes_out_once(text):
    expected = collections.Counter(found(text))
    for change in (keep, made_up.reverse, shuffle, distort):
        changes = {}
        translation = RuleTranslator(change).translate_document(
            text, on_change=changes.__setitem__
        )
        if change is keep:
            assert translation == text
        for each, count in expected.items():
            assert translation.count(each) == text.count(each) >= count
        assert changes == {}


_divided = st.tuples(
    st.sampled_from(
        [
            each
            for each in EXAMPLES + ADDRESSES
            # Tags of a server are read before others.
            if "<" not in each and " " not in each
        ]
    ),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(
        [
            *(
                ("<wbr>", ""),
                ("<!-- a -->", ""),
                ("&shy;", ""),
                ("<b>", "</b>"),
            ),
            *(("<i><b>", "</b></i>"), ("&#8203;", "<wbr>")),
        ]
    ),
)


@some
@given(_divided)
def test_tags_within_a_placeholder_stay_there(divided):
    text, first, length, (opening, closing) = divided
    first = min(first, len(text) - 1)
    parts = [text[:first], text[first:][:length], text[first:][length:]]
    parts = [each.replace("&", "&amp;") for each in parts]
    if closing == "<wbr>" and not parts[2]:
        # It would be beside the placeholder.
        closing = ""
    raw = f"{parts[0]}{opening}{parts[1]}{closing}{parts[2]}"
    for around in ("see {} now", "<p>my <a>{}</a> is", "{}{}my cat"):
        html = around.replace("{}", raw, 1).replace("{}", " ")
        translator = RuleTranslator(made_up.reverse)
        assert raw in translator.translate_document(html, "html")
        # Nothing of it reaches the model.
        assert {*" ".join(translator.texts).split()} <= {
            *("see", "now", "my", "is", "cat", "Tom"),
        }
        assert RuleTranslator(keep).translate_document(html, "html") == html


@pytest.mark.parametrize(
    "html, expected",
    [
        ("mail <b>tom</b>@a.org now", "MAIL <b>tom</b>@a.org NOW"),
        ("<a><b>tom</b>@a.org</a> is", "<a><b>tom</b>@a.org</a> IS"),
        # The partner of a tag is elsewhere.
        ("<b>see https://a.b/</b>c d", "<b>SEE https://a.b/c</b> D"),
        ("<b>see https://a.b/</b>c", "<b>SEE https://a.b/c</b>"),
        ("see https://a.b/<b>c d</b>", "SEE https://a.b/c <b>D</b>"),
        ('a <%= b "<i>" %> <% if c %>d', 'A <%= b "<i>" %> <% if c %>D'),
        ("a <?= $b ?> c", "A <?= $b ?> C"),
        ("a [b <i>c</i>](d.html) e", "A [B <I>C</I>](d.html) E"),
        ("a <% b", "A &lt;% B"),
    ],
)
def test_placeholders_of_markup(html, expected):
    assert upper(html) == expected.replace("<I>", "<i>").replace("</I>", "</i>")
    assert RuleTranslator(keep).translate_document(html, "html") == html


def test_patterns_of_ones_own():
    terms = Terms(placeholders=[r"@@\w+@@", r"(?i)k-\d+"])
    assert not terms
    text = "see @@a@@ and https://x.y/@@b@@/c or K-12"
    assert upper(text, "text", terms) == (
        "SEE @@a@@ AND https://x.y/@@b@@/c OR K-12"
    )
    assert upper("my K<b>-1</b>2", "html", terms) == "MY K<b>-1</b>2"
    for pattern in ("(", "a*", r"\b", "", "[a"):
        with pytest.raises(InputError, match="placeholder"):
            Terms(placeholders=[pattern])


def test_lines_of_items_that_are_lost_or_doubled():
    changes = []
    translator = RuleTranslator(lambda text: ("a %s b 77 77", ()))
    translator.translate_document(
        "Hi.\n\nthe %s here\nthe 77 cats\nthe cats\n",
        terms=Terms(keep=["numbers"]),
        on_change=lambda *change: changes.append(change),
    )
    assert changes == [(3, "%s"), (4, "77")]


@pytest.mark.parametrize(
    "part",
    [
        *("{", "%", "(", "@", "[", "$", "`", "\\", "<", "#", ":", "/", "{{"),
        *("{%", "<%", "$(", "\\(", "a.", "a@", "[a ", "{a,", "{a, plural,"),
        *("http://(", "http://a[", "[a b=", "](", "\\textbf{", "$a^", "/a"),
        *("C:\\", "``a", "@a-", ":a", "www.", "[a](", "<?=", "\\a[b]", "{a:"),
    ],
)
def test_time_of_hostile_text_grows_with_its_length(part):
    finder, seconds = PlaceholderFinder(), []
    for size in 20_000, 80_000:
        start = time.process_time()
        finder.find(part * (size // len(part)))
        seconds.append(time.process_time() - start)
    # Quadratic time grows sixteenfold.
    assert seconds[1] < 10 * seconds[0] + 0.1
    text = part * 3_000
    assert RuleTranslator(keep).translate_document(text) == text
