"""Checks that all formats have in common, and texts of random documents."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.formats.file_format import FileOptions
from export.formats.files import open_file, translate_file
from tests.export.documents.made_up import RuleTranslator, invert_case, keep

COUNTS = pytest.mark.parametrize(
    "count", [20, pytest.param(200, marks=pytest.mark.slow)]
)
WORDS = ("house", "Tom's", "\u00e9t\u00e9", "3.5", "100%", "a@b.org", "{name}")
words = st.lists(
    st.sampled_from([*WORDS, "%s", '"so"', "\u72d7", "\\", "a|b"]),
    min_size=1,
    max_size=6,
).map(" ".join)
# With line ends, blanks around them, and what other formats give a meaning.
texts = st.lists(
    st.sampled_from([*WORDS, " ", "\n", "\t", "#", "- ", ": ", "'", '"', "&"]),
    min_size=1,
    max_size=12,
).map(" ".join)


def on_documents(documents, count, check):
    """Calls a function of one argument on documents of a strategy."""
    settings(max_examples=count, deadline=None, database=None)(
        given(documents)(check)
    )()


def translate_text(text):
    """Returns text as the translator of `translate` does, case inverted."""
    return RuleTranslator(invert_case).translate_document(text)


def translate(text, name, is_new=False, **options):
    """Returns a file's text with the letters' case inverted.

    Unless translations are new, beside their sources, the texts themselves
    give the same bytes, with and without the engine.
    """
    content = text.encode("utf-8")
    options = FileOptions(**options)
    if not is_new:
        file = open_file(content, name, options)
        assert file.write([each.text for each in file.segments]) == content
        same = translate_file(RuleTranslator(keep), content, name, options)
        assert same == content
    translator = RuleTranslator(invert_case)
    return translate_file(translator, content, name, options).decode("utf-8")
