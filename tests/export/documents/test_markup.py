"""HTML's elements, XML's dialects, pairs of tags, and lines."""

import collections
import html
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.documents import xml_dialects
from export.documents.elements import HTML, OPAQUE
from tests.export.documents import made_up
from tests.export.documents.made_up import (
    RuleTranslator,
    invert_case,
    keep,
    reverse,
    shuffle,
)

some = settings(max_examples=60, deadline=None, database=None)


def translate(document, document_format="html", change=keep, **options):
    """Returns the translation and the texts that reached the translator."""
    translator = RuleTranslator(change)
    found = translator.translate_document(document, document_format, **options)
    return found, sorted(translator.texts)


def texts(document, document_format="html", **options):
    found, reached = translate(document, document_format, **options)
    assert found == document
    return reached


def names(text):
    return text.split()


# The default `display` of CSS, from the rendering section of the HTML standard
# and that on obsolete elements; what is no element today is inline.
INLINE = names(
    "a abbr acronym b bdi bdo big blink cite content data del dfn em font i "
    "ins map mark nobr output picture q rb ruby s shadow slot small span "
    "strike strong sub sup time tt u unknown-element"
)
BLOCK = names(
    "address article aside blockquote body center dd details dialog dir div dl "
    "dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 "
    "header hgroup html legend li main menu nav ol optgroup option p plaintext "
    "search section summary ul table caption colgroup tbody td tfoot th thead "
    "tr button marquee meter multicol progress select isindex"
)
# A box without text of ours within.
BOX = names("applet audio canvas fencedframe iframe object portal svg video")
EMPTY_BOX = names("embed image img input hr br col frame keygen spacer")
# Content that is kept, of which the first are shown as words.
KEPT = names("code kbd math samp var listing pre textarea xmp")
# display: none, or above the line.
NONE = names("noembed noframes rp rt rtc script style")
EMPTY_NONE = names(
    "area base basefont bgsound command link meta nextid param source track wbr"
)
# Shown elsewhere, sometimes, or as what a form field is called: a text of its
# own, whatever `display` is.
OWN_TEXT = names(
    "datalist head label menuitem noscript selectedcontent template title"
)
ELEMENTS = [
    *(*INLINE, *BLOCK, *BOX, *EMPTY_BOX, *KEPT, *NONE),
    *(*EMPTY_NONE, *OWN_TEXT),
]


def shown(name, word):
    """Returns an element with a word, and its text with "|" if apart."""
    html = f"<{name}>{word}</{name}>"
    if name in INLINE:
        return html, word
    if name in BLOCK or name in OWN_TEXT:
        return html, f"|{word}|"
    if name in EMPTY_BOX or name in EMPTY_NONE:
        return f"<{name}>", "|" if name in EMPTY_BOX else ""
    return html, "" if name in NONE else "|"


def check_neighbors(seconds):
    """Compares words beside, within and between two elements."""
    numbers = itertools.count()

    def word():
        return "".join(chr(97 + int(each)) for each in str(next(numbers)))

    for first in ELEMENTS:
        documents, expected = [], []
        for second in seconds:
            before, (left, text) = word(), shown(first, word())
            (right, other), after = shown(second, word()), word()
            documents.append(f"{before}{left}{right}{after}")
            between = "|" * ((first, second) == ("a", "a"))
            text = f"{before}{text}{between}{other}{after}"
            expected += text.replace("|", " ").split()
        found = " ".join(texts("<hr>".join(documents))).split()
        assert sorted(found) == sorted(expected), first


def test_neighbors_of_elements():
    xliff = set(names("bpt bx ept ex it ph x"))
    assert set(ELEMENTS) == HTML.keys() - xliff | {"unknown-element"}
    check_neighbors(names("a b p img svg input br code wbr script label"))


@pytest.mark.slow
def test_neighbors_of_all_pairs_of_elements():
    check_neighbors(ELEMENTS)


@pytest.mark.parametrize(
    "html, expected",
    [
        (
            '<nav><a href="1">My house</a><a href="2">My car</a></nav>',
            ["My car", "My house"],
        ),
        ("<li><a>My house</a> | <a>My car</a>", ["My car", "My house"]),
        ("see <a>this</a>, <a>that</a> too", ["see this, that too"]),
        ("as <a>one</a><b><a>two</a></b> say", ["as one two say"]),
        ("I love you\u2764\ufe0fmy friend.", ["I love you my friend."]),
        ("go\U0001f642! (\U0001f642so)", ["(so)", "go!"]),
        ("Go.<img>Come.", ["Come.", "Go."]),
        ("a<img><img> b <i><img></i>c", ["a b c"]),
        ("a<a><img></a>b<i> </i>c<i></i>d", ["a b cd"]),
        ("<label>Name</label><input><label>Age</label>", ["Age", "Name"]),
        ("un<input type=HIDDEN>happy", ["unhappy"]),
        ("<b>un</b>believable", ["unbelievable"]),
        ("be<wbr>lie&shy;v<!-- -->able", ["believable"]),
        ("a<ruby>b<rp>(<rt>c<i>d</i></ruby>e f", ["abe f"]),
        ("a<code>b</code>c d <code>e</code> f", ["a c d Tom f"]),
        ("a <code translate=yes>b</code> c", ["a b c"]),
        ("a<script>'<p>'</script>b", ["ab"]),
        ("a<svg><text>b</text></svg>c", ["a c"]),
        ("a<q translate=no>b</q>c", ["a c"]),
        ("word<sup>1</sup>word", ["word word"]),
    ],
)
def test_what_is_shown_apart_reaches_the_model_apart(html, expected):
    assert texts(html) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "I love you\u2764\ufe0fmy friend.",
            "friend.\u2764\ufe0fmy you love I",
        ),
        ("go <b>up\U0001f642</b>now so", "so now <b>up\U0001f642</b>go"),
        ("go <b>up<img></b>now so", "so now <b>up<img></b>go"),
    ],
)
def test_what_stands_between_words_has_the_spaces_of_the_source(text, expected):
    found, _ = translate(text, change=reverse)
    assert " ".join(found.split(" ")) == expected


def words_within(document, opening, closing):
    """Returns what a pair encloses; fails unless it is there once, in order."""
    start, content = document.split(opening)
    content, end = content.split(closing)
    return sorted(
        re.sub("<bpt.*?</bpt>|<[^>]*>", "", content).casefold().split()
    )


@st.composite
def crossing_pairs(draw):
    """Words with up to six pairs of numbered marks, nested or not."""
    words = [f"w{index}" for index in range(draw(st.integers(1, 8)))]
    gaps = [[] for _ in range(len(words) + 1)]
    for number in range(draw(st.integers(0, 6))):
        ends = st.integers(0, len(words) - 1)
        first, last = sorted((draw(ends), draw(ends)))
        gaps[first].append((number, "open"))
        gaps[last + 1].insert(0, (number, "close"))
    return words, gaps


@some
@given(crossing_pairs(), st.sampled_from(["html", "1.2", "2.0"]), st.data())
def test_pairs_stay_pairs_in_their_order_and_around_their_words(
    pairs, kind, data
):
    words, gaps = pairs
    tags = {
        "html": ("<x-{0}>", "</x-{0}>"),
        "1.2": ("<bpt id='{0}'>[</bpt>", "<ex rid='{0}' id='9{0}'/>"),
        "2.0": ("<sc id='{0}'/>", "<ec startRef='{0}'/>"),
    }[kind]
    if kind == "1.2" and data.draw(st.booleans()):
        tags = ("<bx id='{0}'/>", "<ex id='{0}'/>")
    ends = " " if data.draw(st.booleans()) else ". W"
    text = "".join(
        "".join(tags[0].format(n) for n, side in gap if side == "open")
        + word
        + "".join(tags[1].format(n) for n, side in after if side == "close")
        + ends
        for word, gap, after in zip(words, gaps, gaps[1:])
    )
    document_format = "html"
    if kind != "html":
        document_format = "xml"
        text = f"<xliff><u><source>Go {text}</source></u></xliff>"
    for change in (invert_case, reverse, shuffle):
        found, _ = translate(text, document_format, change)
        for number in {n for gap in gaps for n, _ in gap}:
            pair = tags[0].format(number), tags[1].format(number)
            enclosed = words_within(found, *pair)
            if change is not shuffle and ends == " ":
                assert enclosed == words_within(text, *pair)


def test_misnested_tags_change_no_later_text():
    html = "<b>big <i>red</b> dress</i> here"
    found, _ = translate(html, change=reverse)
    assert found == "here <i>dress <b>red</i> big</b>"
    # Of different sentences, and without a partner.
    html = "<b>Big. A <i>red</b> dress. So</i> here"
    assert translate(html, change=invert_case)[0].casefold() == html.casefold()
    html = "<u><i></u>a</i> <b></i>b"
    found, _ = translate(html, change=invert_case)
    assert found.casefold() == "<u></u><i>a</i> <b></i>b"


def test_an_element_without_aligned_words_gets_the_next_free_one():
    links = ((0, 0), (1, 1), (3, 3))
    translator = RuleTranslator(lambda text: ("je vais bien essayer", links))
    found = translator.translate_document("I <i>am</i> <b>now</b> here", "html")
    assert found == "je <i>vais</i> <b>bien</b> essayer"
    # A tag without words gets none.
    found = translator.translate_document("I am <b>-</b> here", "html")
    assert re.sub(r"\s|<b>-?</b>", "", found) == "jevaisbienessayer"


XML = [
    (
        "<xliff version='1.2'><file date='a b'><header><note>Kept</note>"
        "</header><body><trans-unit id='a'><source>My <g id='1'>house</g> is "
        "<bx id='2'/>big<ex id='3' rid='2'/>.</source><note>Kept</note>"
        "</trans-unit><trans-unit id='b'><source>Kept</source><target>Kept"
        "</target><alt-trans><source>Kept</source><target/></alt-trans>"
        "</trans-unit><trans-unit id='c'><source>New</source><target "
        "state='new'>New</target></trans-unit><trans-unit translate='no'>"
        "<source>Kept</source></trans-unit><trans-unit><source>Say <mrk "
        "mtype='protected'>kept</mrk> so</source><target/></trans-unit>"
        "</body></file></xliff>",
        ["My house is big.", "New", "Say Tom so"],
    ),
    (
        "<xliff xmlns='urn:oasis:names:tc:xliff:document:2.1'><file><unit>"
        "<notes><note>Kept</note></notes><originalData><data id='d'>Kept"
        "</data></originalData><segment><source><pc id='1'>My</pc> <mrk "
        "translate='no' id='m'>kept</mrk><pc id='2'>house</pc></source>"
        "</segment><segment state='final'><source>Kept</source><target>Kept"
        "</target></segment><ignorable><source>Kept</source></ignorable>"
        "</unit></file></xliff>",
        ["My house"],
    ),
    (
        "<resources xmlns:xliff='u'><string name='a' translatable='false'>Kept"
        "</string><string name='b'>Hello <xliff:g id='n'>%s</xliff:g></string>"
        "<color name='c'>kept</color><plurals><item>One</item></plurals>"
        "<style><item>kept</item></style></resources>",
        ["Hello Tom", "One"],
    ),
    (
        "<rss><channel><title>Mine</title><link>kept</link><pubDate>Mon"
        "</pubDate><item><guid>kept</guid><description>Text</description>"
        "<author>Kept</author></item></channel></rss>",
        ["Mine", "Text"],
    ),
    (
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>Mine</title>"
        "<updated>kept</updated><author><name>Kept</name></author><entry>"
        "<id>kept</id><content><div><p>My <b>house</b></p></div></content>"
        "</entry></feed>",
        ["Mine", "My house"],
    ),
    (
        "<svg xmlns='http://www.w3.org/2000/svg'><title>Mine</title><metadata>"
        "<title>Kept</title></metadata><style>kept</style><text>Hello <tspan>"
        "big</tspan> world</text><text><tspan>One</tspan><tspan>Two</tspan>"
        "</text></svg>",
        ["Hello big world", "Mine", "One", "Two"],
    ),
    (
        "<html xmlns='http://www.w3.org/1999/xhtml'><body><p><b>un</b><i>"
        "happy</i></p><p>My<img/>house<br/>is</p><div>a<p>b</p></div></body>"
        "</html>",
        ["My house", "a", "b", "is", "unhappy"],
    ),
    (
        "<article><info><title>Mine</title><author><personname>Kept"
        "</personname></author><pubdate>kept</pubdate></info><para>Type "
        "<command>kept</command> here<footnote><para>Or not</para></footnote>"
        "</para><programlisting>kept</programlisting></article>",
        ["Mine", "Or not", "Type Tom here"],
    ),
    (
        "<topic><title>Mine</title><prolog><author>Kept</author></prolog>"
        "<body><p>Open <filepath>kept</filepath> and <uicontrol>save"
        "</uicontrol><fn>A note</fn></p><codeblock>kept</codeblock></body>"
        "</topic>",
        ["A note", "Mine", "Open Tom and save"],
    ),
    (
        "<TEI xmlns='http://www.tei-c.org/ns/1.0'><teiHeader><title>Mine"
        "</title><publicationStmt><p>Kept</p></publicationStmt></teiHeader>"
        "<text><p>My house<lb/>is <ex>big</ex><note>A note</note></p></text>"
        "</TEI>",
        ["A note", "Mine", "My house is big"],
    ),
    (
        "<a xmlns:its='http://www.w3.org/2005/11/its'><its:rules><its:"
        "translateRule selector='//x:term' translate='no'/><its:translateRule "
        "selector='//code' translate='yes'/></its:rules><p>A <term>kept</term> "
        "is <code>good</code></p><h its:translate='no'><p>Kept</p></h></a>",
        ["A Tom is good"],
    ),
    # Only the name of the root is that of Android's.
    ("<resources><text>Hello</text></resources>", ["Hello"]),
]


@pytest.mark.parametrize("xml, expected", XML)
def test_only_text_of_known_dialects_is_translated(xml, expected):
    assert texts(xml, "xml") == expected
    found, _ = translate(xml, "xml", change=invert_case)
    for tag in re.findall("<[^>]*>", xml):
        assert found.count(tag) == xml.count(tag)
    for kept in re.findall("[Kk]ept", xml):
        assert found.count(kept) == xml.count(kept)


HTML_WITHIN = [
    ("<rss><item><description>", "</description></item></rss>"),
    (
        "<feed xmlns='http://www.w3.org/2005/Atom'><title type='html'>",
        "</title></feed>",
    ),
    ("<resources><string name='a'>", "</string></resources>"),
]


@some
@given(
    made_up.marked_texts,
    st.sampled_from(HTML_WITHIN),
    st.booleans(),
    st.sampled_from([keep, invert_case, reverse]),
)
def test_html_within_xml_is_translated_as_html(
    document, around, is_cdata, change
):
    document = f"<p>{document}</p>"
    escaped = f"<![CDATA[{document}]]>" if is_cdata else html.escape(document)
    found, reached = translate(escaped.join(around), "xml", change)
    expected, alone = translate(document, "html", change)
    assert reached == alone
    assert change is not keep or found == escaped.join(around)
    start, end = around
    assert found.startswith(start) and found.endswith(end)
    found = found[len(start) : -len(end)]
    if is_cdata:
        found = found.removeprefix("<![CDATA[").removesuffix("]]>")
    else:
        assert "<" not in found
        found = html.unescape(found)
    assert html.unescape(found) == html.unescape(expected)


def test_what_is_no_tag_within_xml_is_text():
    titles = "<title>a &lt;b or c</title><title>x &lt; y &gt; z</title>"
    assert texts(f"<rss>{titles}</rss>", "xml") == ["a <b or c", "x < y > z"]


def test_all_names_of_the_dialects_are_kept():
    documents = []
    for dialect in xml_dialects._DIALECTS:
        root = sorted(dialect.roots)[0]
        text = min(dialect.translated_names, default="p")
        for name, role in dialect.roles.items():
            if role in OPAQUE and name not in dialect.translated_names | {text}:
                element = f"<{name}>kept</{name}>"
                documents.append(
                    f'<{root} xmlns="{dialect.namespace}">'
                    f"<{text}>one {element} two</{text}><z>{element}</z>"
                    f"</{root}>"
                )
    assert len(documents) > 100
    for document in documents:
        assert "kept" not in " ".join(texts(document, "xml")), document


@st.composite
def trees(draw, is_translated=True, depth=0):
    """XML or HTML with attributes, and its words that are translated."""
    wish = draw(st.sampled_from([None, None, True, False]))
    is_translated = is_translated if wish is None else wish
    name = draw(st.sampled_from(["b", "div", "q", "p"]))
    attribute = "" if wish is None else f' translate="{"yn"[not wish]}"'
    attribute = attribute.replace('"y"', '"yes"').replace('"n"', '"no"')
    if draw(st.booleans()):
        attribute = attribute.replace(" t", " its:t")
    content, words = "", []
    for _ in range(draw(st.integers(0, 3))):
        if depth < 4 and draw(st.booleans()):
            inner, more = draw(trees(is_translated, depth + 1))
            content, words = content + inner, words + more
        else:
            content += " w "
            words += ["w"] if is_translated else []
    return f"<{name}{attribute}>{content}</{name}>", words


@some
@given(trees(), st.sampled_from(["html", "xml"]))
def test_attributes_say_what_is_translated_until_others_do(tree, kind):
    document, words = tree
    document = f"<div>{document}</div>"
    if kind == "xml":
        document = document.replace("<div>", '<div xmlns:its="i">', 1)
    numbers = itertools.count()

    def number(match):
        letters = str(next(numbers)).translate(
            {48 + digit: 97 + digit for digit in range(10)}
        )
        return f"w{letters}"

    document = re.sub(r"\bw\b", number, document)
    found = " ".join(texts(document, kind)).replace("Tom", "").split()
    assert len(found) == len(words)
    changed, _ = translate(document, kind, change=invert_case)
    for word in re.findall(r"\bw\w+", document):
        assert (word in changed.split()) != (word in found)


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_elements_that_are_named_are_kept(kind):
    document = "<r>My <key>old</key> car<para><row>is</row></para></r>"
    reached = texts(document, kind, keep_elements=["key", "row"])
    assert reached == ["My Tom car"]


LINES = [
    "It was a bright cold day in April and all the",
    "clocks were striking thirteen when the old man",
    "went up to the seventh floor of his house.",
]


@pytest.mark.parametrize(
    "lines, is_one",
    [
        (LINES, True),
        # A list, a poem, and what is too little to tell.
        (["milk and eggs", "bread", "two apples"], False),
        (["Roses are red,", "violets are blue,", "sugar is sweet"], False),
        ([line.title() for line in LINES], False),
        ([*LINES, "and", *LINES], False),
        (LINES[:2], False),
    ],
)
def test_lines_are_joined_only_if_all_are_wrapped(lines, is_one):
    html = "<br>".join(lines)
    assert len(texts(html)) == (1 if is_one else len({*lines}))
    found, _ = translate(f"<p>{html}<br/></p>", change=reverse)
    assert collections.Counter(re.findall("<.*?>", found))["<br>"] == (
        len(lines) - 1
    )
    if not is_one:
        translated = [reverse(line)[0] for line in lines]
        assert found == f"<p>{'<br>'.join(translated)}<br/></p>"
