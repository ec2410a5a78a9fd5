"""Test sets that OPUS-MT publishes are read."""

import pytest

from export.common.errors import InputError
from export.lines.published import as_published, read_published


def test_a_file_is_read(tmp_path):
    groups = [("a", "b", "c"), ("d", "e ", "f\u2028g")]
    text = "\n\n".join("\n".join(group) for group in groups)
    path = tmp_path / "a.test.txt"
    for end in ("\n\n", "\n", ""):
        path.write_text(text + end, "utf-8")
        published = read_published(path)
        assert published == (["a", "d"], ["b", "e "], ["c", "f g"])


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "a.test.txt"
    for text in ("", "a\nb\nc\n\nd\n", "a\nb\nc\nd\n", "a\n\nc\n\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="a.test.txt"):
            read_published(path)


def test_escapes_of_a_translation_are_undone():
    assert as_published(" &lt;a&gt; &quot;b&apos;s&quot; &amp;lt; ") == (
        '<a> "b\'s" &lt;'
    )
