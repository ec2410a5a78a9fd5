"""Markdown, compared with what markdown-it makes of it."""

import re

from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.export.formats.round_trip import COUNTS, on_documents, translate

PAGE = """---
title: Page
---
# A *big* title #

Some **bold \\* text** with `code` and a [link](https://a.b "Title") <b>x</b>,
next 2 * 3 < 4 &amp; ![alt text](a.png) ~~old~~\\
hard.

> quoted one
> - item one
>   and on

Setext
======

| one | b \\| c |
|:----|---|
| Hello **you** | `x` |

```py
code
```

    more code

<div class="c">
Hello <i>you</i>
</div>

1. first
2. [ ] second

[r]: https://x.y "Title"
See [this][r], [r] and <https://a.b>. Note[^1].

[^1]: The note.
"""
EXPECTED = """---
title: Page
---
# a *BIG* TITLE #

sOME **BOLD \\* TEXT** WITH `code` AND A [LINK](https://a.b "Title") <b>X</b>,
NEXT 2 * 3 < 4 &amp; ![ALT TEXT](a.png) ~~OLD~~\\
HARD.

> QUOTED ONE
> - ITEM ONE
>   AND ON

sETEXT
======

| ONE | B \\| C |
|:----|---|
| hELLO **YOU** | `x` |

```py
code
```

    more code

<div class="c">
hELLO <i>YOU</i>
</div>

1. FIRST
2. [ ] SECOND

[r]: https://x.y "Title"
sEE [THIS][r], [R] AND <https://a.b>. nOTE[^1].

[^1]: tHE NOTE.
"""
_words = st.lists(
    st.sampled_from(
        [
            *(
                "house",
                "Tom's",
                "\u00e9t\u00e9",
                "3.5",
                "\u72d7",
                "*",
                "_",
                "<",
            ),
            *("`code x`", "**big one**", "*so*", "***x***", "__a__ b", "~~d~~"),
            *(
                "[link *x*](https://a.b)",
                "![alt](b.png)",
                "![](c.png)",
                "[two][r]",
                "\\*",
            ),
            *("<https://c.d>", "<kbd>F</kbd>", "&amp;", "a|b", "[no", "]", "`"),
            *("\\\n", "\n", "  \n", "- x", "# y", "1. z", "a_b_c", "&", "$5"),
        ]
    ),
    min_size=1,
    max_size=9,
).map(" ".join)
_block = st.one_of(
    _words,
    _words.map("## {}".format),
    _words.map(lambda text: "> " + text.replace("\n", "\n> ")),
    _words.map(lambda text: "- " + text.replace("\n", "\n  ")),
    _words.map(lambda text: f"```\n{text}\n```"),
    st.lists(_words, min_size=2, max_size=2).map(
        lambda cells: "| {} | {} |\n|---|---|\n| a | b |".format(
            *(re.sub(r"\s*\n\s*", " ", cell) for cell in cells)
        )
    ),
)
pages = st.lists(_block, max_size=5).map(
    lambda blocks: "\n\n".join([*blocks, "[r]: https://x.y\n"])
)


def render(text):
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return parser.render(text)


def test_a_page():
    assert translate(PAGE, "markdown") == EXPECTED
    windows = PAGE.replace("\n", "\r\n")
    assert translate(windows, "markdown") == EXPECTED.replace("\n", "\r\n")


@COUNTS
def test_pages_have_the_same_structure(count):
    def check(text):
        before, after = render(text), render(translate(text, "markdown"))
        assert after.casefold() == before.casefold()
        for pattern in "<code>.*?</code>", 'href=".*?"':
            found, expected = (
                re.findall(pattern, each, re.DOTALL) for each in (after, before)
            )
            assert found == expected

    on_documents(pages, count, check)


def test_a_translation_begins_no_list():
    from export.formats.files import open_file

    file = open_file(b"One\ntwo\n\n> Three\n", "markdown")
    assert [each.text for each in file.segments] == ["One\ntwo", "Three"]
    new = ["1. One\n- two", "# Three"]
    assert file.write(new) == b"1\\. One\n\\- two\n\n> \\# Three\n"
