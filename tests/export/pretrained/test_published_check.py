"""An import is compared with translations that were published."""

import pytest
import sacrebleu

from export.common.errors import InputError
from export.ctranslate2.published_check import compare_with_published
from export.lines.published import Published, as_published, read_published
from export.translators.text_translator import Translation

SOURCES = ["ba ko.", "lu & mi.", "do.", "te la ba."]


def written(path, groups, end="\n"):
    text = "\n\n".join("\n".join(group) for group in groups) + end
    path.write_text(text, "utf-8")
    return path


def test_a_file_is_read(tmp_path):
    groups = [("a", "b", "c"), ("d", "e ", "f\u2028g")]
    for end in ("\n\n", "\n", ""):
        path = written(tmp_path / "a.test.txt", groups, end)
        found = read_published(path)
        assert found == (["a", "d"], ["b", "e "], ["c", "f g"])


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "a.test.txt"
    for text, word in (
        ("", "ends within a sentence"),
        ("a\nb\nc\n\nd\n", "ends within a sentence"),
        ("a\nb\nc\nd\n", "Line 4"),
        ("a\n\nc\n\n", "Line 2"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=word):
            read_published(path)


def test_translations_are_written_as_there():
    assert as_published(" &lt;a&gt; &quot;b&apos;s&quot; &amp;lt; ") == (
        '<a> "b\'s" &lt;'
    )


class Answering:
    """A translator that says what it is told to."""

    def __init__(self, answers):
        self._answers = answers

    def translate(self, texts, on_progress):
        on_progress(len(texts))
        return [Translation(self._answers[text], 0.0) for text in texts]


def test_the_lines_of_a_comparison():
    ours = ["ba do.", "one &amp; other", "lu mi do.", "te "]
    # The first differs by spaces at its end.
    theirs = ["ba do. ", "another one", "lu mi do.", "te"]
    references = ["ba ko lu mi do.", "another one", "lu mi te.", "te la."]
    printed = "\n".join(
        compare_with_published(
            Answering(dict(zip(SOURCES, ours))),
            Published(SOURCES, references, theirs),
        )
    )
    assert "75.00% (3 of 4)" in printed
    ours[1] = "one & other"
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        our, their = (
            metric.corpus_score(
                [text.strip() for text in each], [references]
            ).score
            for each in (ours, theirs)
        )
        expected = (
            f"imported {our:.2f}, published {their:.2f} ({our - their:+.2f})"
        )
        assert expected in printed
    assert f"source     {SOURCES[1]}\n" in printed
    assert "imported   one & other\n" in printed
    assert SOURCES[0] not in printed
