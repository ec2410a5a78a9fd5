"""Translators by rule, and documents of random parts."""

import random
import re
import time

from hypothesis import strategies as st

from export.translators.backend import Backend
from export.translators.translation import Sentence, Translation
from export.translators.translator import Translator


class RuleTranslator(Translator):
    """Translates by a function of the words; records its `texts`.

    `change` maps words to words and pairs (source word, target word), `limit`
    is the maximum number of characters; as a server it tells only afterwards
    that a text was truncated.
    """

    def __init__(self, change, limit=10**9, is_server=False):
        super().__init__(_RuleBackend(change, limit, is_server))
        self.texts = self.backend.texts


class _RuleBackend(Backend):
    num_threads = 1
    batch_size = 1000

    def __init__(self, change, limit, is_server):
        self._change = change
        self._limit = limit
        self._is_server = is_server
        self.texts = []

    def tokenize(self, texts):
        return [
            Sentence(
                text,
                (),
                len(text) + 1,
                len(text) > self._limit and not self._is_server,
            )
            for text in texts
        ]

    def validate_terms(self, terms):
        pass

    def search(self, sentences, n, align):
        rows = []
        for sentence in sentences:
            text, links = self._change(sentence.text)
            is_truncated = len(sentence.text) > self._limit
            if not is_truncated:
                self.texts.append(sentence.text)
            rows.append(
                [Translation(text, 0.0, links if align else (), is_truncated)]
            )
        return rows


def keep(text):
    return text, tuple((i, i) for i in range(len(text.split())))


def invert_case(text):
    """Changes letters only, without changing the number of characters."""
    changed = "".join(
        each.swapcase() if len(each.swapcase()) == 1 else each for each in text
    )
    return re.sub("tOM|bOSTON", lambda name: name[0].title(), changed), keep(
        text
    )[1]


def reverse(text):
    """The same words in the other order."""
    words = text.split()
    links = tuple((i, len(words) - 1 - i) for i in range(len(words)))
    return " ".join(words[::-1]), links


def shuffle(text):
    """Other words in another order, some lost, with wrong alignments."""
    generator = random.Random(text)
    words = text.split()
    order = [
        index
        for index in generator.choices(range(len(words)), k=len(words) + 1)
        if generator.random() < 0.9
    ]
    target = [
        words[index] if words[index] in ("Tom", "Boston") else f"w{index}!"
        for index in order
    ]
    links = {
        (generator.choice([index, generator.randrange(len(words))]), position)
        for position, index in enumerate(order)
        if generator.random() < 0.9
    }
    return " ".join(target), tuple(sorted(links))


WORDS = [
    *("the", "cat", "house.", "It's", "3.5", "Dr.", "wasn't,"),
    *("word-for-word", "été", "über?", "Это", "дом!", "مرحبا.", "की", "है।"),
    *("我喜欢狗。", "猫がいる", "สวัสดี", "(so)", "«non»", "Tom", "100%", "🙂"),
    *("{name}", "%s", "%(x)d", "{{y}}", "a@b.org"),
]
LINE_ENDS = ("\n", "\r\n", "\r", "\u2028", "\u2029", "\x0b", "\x0c", "\x85")

_line = st.builds(
    lambda indent, words, blanks: indent + blanks.join(words),
    st.sampled_from(["", "", "  ", "\t", "- ", " * ", "1. ", "> ", "\ufeff"]),
    st.lists(st.sampled_from(WORDS), max_size=14),
    st.sampled_from([" ", " ", "  ", "\t", "\u00a0"]),
)
texts = st.lists(
    st.tuples(_line, st.sampled_from(LINE_ENDS * 2 + ("\n\n", " \n"))),
    max_size=12,
).map(lambda lines: "".join(map("".join, lines)))


def assert_linear_time(function, whole, quarter):
    """Asserts that a function's time grows with its argument's length alone."""

    def measure(argument):
        start = time.process_time()
        function(argument)
        return time.process_time() - start

    seconds = measure(whole)
    # Linear time grows fourfold, quadratic time sixteenfold.
    if seconds > 1:
        assert seconds < 8 * measure(quarter)


def long_html(size, separator):
    """Different sentences with nested tags, one line of `size` characters."""
    generator = random.Random(size)
    parts = []
    while size > 0:
        words = [
            generator.choice(["the", "fox", "Tom's", "a&nbsp;b", "&lt;"])
            + f"{generator.randrange(10**4)}"
            for _ in range(8)
        ]
        parts.append(
            "The {} <b>{}</b> {} <a href='{}'>{} <i>{}</i></a> {} {}.".format(
                *words
            )
        )
        size -= len(parts[-1])
    return f"<p>{separator.join(parts)}</p>"


_leaves = st.sampled_from(
    [
        *(f"{word} " for word in WORDS),
        *("un", "happy ", "\n  ", "  ", ". ", "? What ", "(", ") ", "\u72d7"),
        *(
            "&amp;",
            "&lt;b&gt; ",
            "&eacute;t\u00e9 ",
            "&nbsp;",
            "&foo; ",
            "AT&T",
            "&lt;http://a.b/?c&amp;d&gt;",
        ),
        *("<img>", "<wbr>", "<!-- <b> -->", "<br>", "<code>x&lt;y</code> "),
        *(
            '<x id="1"/>',
            '<x id="2"/> ',
            "<sup>1</sup> ",
            "<i></i>",
            "<b> </b>",
        ),
        *(
            '<q translate="no">as <b>it</b></q> ',
            "</p>\n<p>",
            "<hr>",
            "<ul><li>",
        ),
    ]
)
_elements = st.recursive(
    _leaves,
    lambda inner: st.builds(
        lambda name, content: f"<{name}>{''.join(content)}</{name}>",
        st.sampled_from(["b", "i", "em", "a", "span", "x-y", "div", "g"]),
        st.lists(inner, max_size=5),
    ),
    max_leaves=25,
)


def _number_tags(html):
    """Gives each start tag a number, as an attribute."""
    parts = re.split(r"(<(?!\w+ translate)\w[\w-]*)(?=[ >])", html)
    for number, index in enumerate(range(1, len(parts), 2)):
        parts[index] += f' n="{number}"'
    return "".join(parts)


marked_texts = st.lists(_elements, max_size=8).map("".join).map(_number_tags)
