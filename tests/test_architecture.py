"""docs/architecture.md: the functions that a sentence passes."""

import pathlib
import re
import sys

import pytest

from export.serving.served_translator import ServedTranslator
from export.tokenizers.tokenizer import Tokenizer
from tests import made_up_text
from tests.export import tiny

ROOT = pathlib.Path(__file__).parents[1]


def read_list():
    """Returns the pairs of a file and a function of the numbered list."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    section = page.split("## A served sentence")[1]
    (items,) = re.findall(r"\n\n(1\. .*?)\n\n", section, re.DOTALL)
    functions, file = [], None
    for name in re.findall("`([^`]+)`", items):
        if name.endswith(".py"):
            file = name
        else:
            functions.append((file, name))
    return functions


@pytest.mark.slow
def test_a_sentence_passes_the_functions_of_the_page_in_their_order():
    served = ServedTranslator(
        tiny.model(), Tokenizer(made_up_text.vocabulary()), 16
    )
    calls = []

    def record(frame, event, argument):
        del argument
        code = frame.f_code
        path = pathlib.Path(code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            file = path.relative_to(ROOT).as_posix()
            calls.append((file, code.co_qualname))

    sys.setprofile(record)
    try:
        served.translate.get_concrete_function()
    finally:
        sys.setprofile(None)
    listed = read_list()
    assert len(listed) > 25
    assert [each for each in listed if each not in calls] == []
    positions = [calls.index(each) for each in listed]
    assert positions == sorted(positions)
    # Nothing of the text is done twice.
    for name in "clean_text", "tokenize", "detokenize":
        call = "export/tokenizers/tokenizer.py", f"Tokenizer.{name}"
        assert calls.count(call) == 1
