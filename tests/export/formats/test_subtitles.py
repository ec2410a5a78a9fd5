"""Subtitles: what stays, where sentences are cut, and what is refused."""

import re

import pytest
from hypothesis import strategies as st

from export.common.errors import InputError
from export.formats.file_format import FileOptions
from export.formats.files import translate_file
from export.formats.subtitles import open_subtitles
from tests.export.documents.made_up import RuleTranslator, shuffle
from tests.export.formats.round_trip import COUNTS, on_documents, translate

TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


def cue(number, start, end, text, separator=","):
    times = f"00:00:{start:06.3f} --> 00:00:{end:06.3f}"
    return f"{number}\n{times.replace('.', separator)}\n{text}\n\n"


def write(text, *translations):
    """Returns the texts of cues with given translations of the segments."""
    file = open_subtitles(text.encode(), FileOptions())
    found = file.write(translations).decode()
    blocks = found.rstrip().split("\n\n")
    return ["\n".join(block.split("\n")[2:]) for block in blocks]


def sources(text):
    return [
        each.text
        for each in open_subtitles(text.encode(), FileOptions()).segments
    ]


def test_sentences_of_cues_are_joined_and_cut_by_time():
    text = cue(1, 1, 2, "When I was\nyoung") + cue(2, 2, 5, "I had a cat. It")
    text += cue(3, 5, 6, "slept.") + cue(4, 7, 8, "Good night.")
    assert sources(text) == [
        "When I was young I had a cat. It slept.",
        "Good night.",
    ]
    # One, three and one of five seconds, and 40 columns: 8, 24 and 8.
    found = write(text, "Aa bb cc dd ee ff gg hh ii jj kk ll mm", "Oo.")
    assert found == ["Aa bb cc", "dd ee ff gg hh ii jj", "kk ll mm", "Oo."]
    # Rather after a comma.
    found = write(text, "Aa bb, cc dd ee ff gg hh ii jj kk. Ll mm", "Oo.")
    assert found[:3] == ["Aa bb,", "cc dd ee ff gg hh ii jj kk.", "Ll mm"]
    # Each has something, if there are words enough.
    assert write(text, "A b c", "") == ["A", "b", "c", ""]
    assert write(text, "\u6211\u559c\u6b22\u732b\u3002", "Oo.")[:3] == [
        *("\u6211", "\u559c\u6b22", "\u732b\u3002"),
    ]


def test_pauses_speakers_and_long_files_without_punctuation_end_sentences():
    text = cue(1, 1, 2, "and then") + cue(2, 9, 10, "it rained")
    assert sources(text) == ["and then", "it rained"]
    text = cue(1, 1, 2, "- Who is\nthere?\n- It is") + cue(2, 2, 3, "me.")
    assert sources(text) == ["- Who is there?", "- It is me."]
    assert write(text, "- Wer?", "- Ich bin da !") == [
        "- Wer?\n- Ich",
        "bin da !",
    ]
    text = "".join(cue(i, i, i + 1, "some words") for i in range(1, 30))
    assert max(map(len, sources(text))) < 100


def test_lines_have_42_columns_and_cues_two_lines():
    text = cue(1, 1, 2, "One,") + cue(2, 2, 9, "two.")
    words = "This sentence, which is long, has six and more lines of a cue " * 2
    found = write(text, f"{words}end.")
    assert " ".join(" ".join(found).split()) == f"{words}end."
    assert [each.count("\n") for each in found] == [1, 1]
    assert max(len(line) for each in found for line in each.split("\n")) <= 42
    wide = write(cue(1, 1, 2, "One."), "\u732b" * 40)
    assert wide == ["\u732b" * 20 + "\n" + "\u732b" * 20]
    # Halves of like width; what does not fit has more lines.
    line = "Where have you been for such a long time today?"
    assert write(cue(1, 1, 2, "One."), line) == [
        "Where have you been for\nsuch a long time today?"
    ]
    assert write(cue(1, 1, 2, "One."), "word " * 30)[0].count("\n") == 3


def test_tags_and_positions():
    text = cue(1, 1, 2, "{\\an8}<i>When I was</i>") + cue(
        2, 2, 3, "<i>a <b>small child</b>, it rained.</i>"
    )
    source = "<p>When I was a <b>small child</b>, it rained.</p>"
    assert sources(text) == [source]
    assert write(text, "<p>Als <b>ich ein kleines Kind war</b>, ja.</p>") == [
        "{\\an8}<i>Als <b>ich ein kleines</b></i>",
        "<i><b>Kind war</b>, ja.</i>",
    ]
    text = cue(1, 1, 2, "<v Bob>Go {\\i1}now{\\i0} &amp; here", ".")
    assert "{\\i1}NOW{\\i0} &amp; HERE" in translate(f"WEBVTT\n\n{text}", "vtt")
    assert "<v Bob>gO" in translate(f"WEBVTT\n\n{text}", "vtt")
    # A model's sign of markup stays a sign.
    text = f"WEBVTT\n\n{cue(1, 1, 2, 'Text', '.')}".encode()
    found = open_subtitles(text, FileOptions()).write(["a < b & c"])
    assert b"a &lt; b &amp; c\n" in found


_texts = st.lists(
    st.sampled_from(
        ["the", "cat.", "I", "said,", "3.5", "- Oh!", "\n", "\u732b", "\u2028"]
        + ["<i>", "</i>", "<b>so it</b>", "{\\an8}", "<00:01.000>", "&amp;"]
        + ["<v Bob>", "[door]", "Tom's", '<font color="red">x</font>']
    ),
    max_size=12,
).map(lambda words: re.sub(r"\s*\n\s*", "\n", " ".join(words)).strip())
_cues = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 5]), st.integers(0, 4), _texts),
    min_size=1,
    max_size=8,
)


def build(cues, is_vtt, line_end):
    text, time = "\ufeffWEBVTT - a\nKind: captions\n\n" if is_vtt else "", 0
    for number, (pause, length, words) in enumerate(cues):
        if is_vtt and number % 3 == 1:
            text += "NOTE the cat.\nthe dog.\n\n"
        time += pause
        block = cue(number, time, time + length, words, ".,"[not is_vtt])
        if is_vtt:
            block = block.replace("\n", " align:start\n", 2)
            block = block.replace(" align:start", "", 1)
        text += block + "\n" * (number % 2)
        time += length
    return text.rstrip("\n").replace("\n", line_end)


@COUNTS
def test_times_and_words_stay_in_order(count):
    documents = st.builds(
        build, _cues, st.booleans(), st.sampled_from(["\n", "\r\n"])
    )

    def check(text):
        is_vtt = "WEBVTT" in text
        name = "vtt" if is_vtt else "srt"
        found = translate(text, name)
        shuffled = RuleTranslator(shuffle)
        others = translate_file(shuffled, text.encode(), name).decode()

        def split(text):
            """Returns the words of cues without tags, and all other lines."""
            lines, words, is_text = [], [], False
            for line in text.split("\n"):
                is_text = is_text and bool(line.strip())
                if is_text:
                    words += TAG.sub("", line).casefold().split()
                else:
                    lines.append(line)
                is_text |= "-->" in line
            return words, lines

        assert split(found) == split(text)
        # A translation may be empty.
        frames = [filter(str.strip, split(each)[1]) for each in (others, text)]
        assert [*frames[0]] == [*frames[1]]
        tags = [sorted(TAG.findall(others)), sorted(TAG.findall(text))]
        for tag in ("{\\an8}", "<00:01.000>", "<v Bob>"):
            assert tags[0].count(tag) == tags[1].count(tag)

    on_documents(documents, count, check)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (cue(1, 5, 6, "a") + cue(2, 3, 4, "b"), 6),
        (cue(1, 5, 4, "a"), 2),
        (cue(1, 5, 6, "a") + "2\n00:0x --> 00:00:07,000\nb\n", 6),
        (cue(1, 5, 6, "a") + "more text\nof it", 6),
        ("Some text", 1),
    ],
)
def test_errors_name_the_line(content, line):
    with pytest.raises(InputError, match=rf"\bline {line}\b|Line {line}\b"):
        open_subtitles(content.encode(), FileOptions())


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"PK\3\4"])
def test_what_is_no_text_or_has_no_cue_is_refused(content):
    with pytest.raises(InputError):
        open_subtitles(content, FileOptions())
