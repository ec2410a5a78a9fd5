"""What stands between sentences and lines, in scripts with spaces or not."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.export.documents.made_up import RuleTranslator, keep

SENTENCES = {
    "zh": ["你好。", "再见！", "真的吗？", "「好。」", "他（也）来了．"],
    "ja": ["こんにちは。", "はい！", "『そうです。』", "猫がいる｡"],
    "en": ["Hello.", "Is it so?", "“Good!”", "She (too) left."],
    "ko": ["안녕하세요.", "정말?", "네!"],
    "ru": ["Привет.", "Правда?"],
    "th": ["สวัสดีครับ", "ไปไหน?"],
}
UNSPACED = {"zh", "ja"}
some = settings(max_examples=200, deadline=None, database=None)


def translate(text, sentences, document_format="text"):
    """Translates by a dict; returns the translation and what was asked."""
    translator = RuleTranslator(lambda each: (sentences[each], ((0, 0),)))
    found = translator.translate_document(text, document_format)
    return found, translator.texts


def pairs(source, target):
    return st.lists(
        st.tuples(
            st.sampled_from(SENTENCES[source]),
            st.sampled_from(SENTENCES[target]),
        ),
        min_size=2,
        max_size=5,
        unique_by=lambda pair: pair[0],
    )


_tags = st.sampled_from(["{}", "<b>{}</b>", "<i><b>{}</b></i>", "{}<wbr>"])
# Thai has no sign at the end of a sentence.
_languages = st.sampled_from(
    [
        (source, target)
        for source in SENTENCES
        for target in SENTENCES
        if source not in (target, "th")
    ]
)


@some
@given(st.data())
def test_spaces_between_sentences_are_those_of_the_script(data):
    source, target = data.draw(_languages)
    sentences = dict(data.draw(pairs(source, target)))
    for document_format in ("text", "html"):
        frames = ["{}"] * len(sentences)
        if document_format == "html":
            frames = [data.draw(_tags) for _ in sentences]
        gap = "" if source in UNSPACED else " "
        expected_gap = "" if target in UNSPACED else " "
        text = gap.join(
            frame.replace("{}", each) for frame, each in zip(frames, sentences)
        )
        found, _ = translate(text, sentences, document_format)
        assert re.sub("<[^>]*>", "", found) == (
            expected_gap.join(sentences.values())
        )
        # Line ends stay.
        text = "\n".join(sentences)
        if document_format == "html":
            found, _ = translate(text, sentences, "html")
            assert found == "\n".join(sentences.values())


@pytest.mark.parametrize(
    "text, sentences, expected",
    [
        ("你好。😀再见！", "你好。 Hello. 再见！ Bye!", "Hello. 😀 Bye!"),
        ("Hello. 42! Bye!", "Hello. 你好。 Bye! 再见！", "你好。42! 再见！"),
        # The source has a space though its script needs none.
        (
            "你好。 再见！",
            "你好。 こんにちは。 再见！ では！",
            "こんにちは。 では！",
        ),
        ("Hi.Bye.", "Hi. Oh. Bye. No.", "Oh.No."),
        ("你好。再见！", "你好。 Hello！ 再见！ Bye", "Hello！ Bye"),
        ("你好。OK！", "你好。 好。 OK！ OK!", "好。OK!"),
    ],
)
def test_gaps(text, sentences, expected):
    words = sentences.split(" ")
    found, _ = translate(text, dict(zip(words[::2], words[1::2])))
    assert found == expected


def test_wrapped_lines_of_scripts_without_spaces():
    text = (
        "我喜欢在这个房子里读书，他也喜欢读书，我们都很\n"
        "高兴。今天的天气也很好，我们去公园里面散步和玩\n"
        "耍吧，再见。\n"
    )
    translator = RuleTranslator(lambda text: ("One two three four.", ()))
    found = translator.translate_document(text)
    assert translator.texts == [
        "我喜欢在这个房子里读书，他也喜欢读书，我们都很高兴。",
        "今天的天气也很好，我们去公园里面散步和玩耍吧，再见。",
    ]
    assert " ".join(found.split()) == "One two three four. " * 1 + (
        "One two three four."
    )
    assert found.count("\n") == 3
    # A poem is not.
    assert len(translate("床前明月光，\n疑是地上霜。", _any())[1]) == 2
    html = "<p>我喜欢\n  读书。\n再见！</p>"
    found, texts = translate(
        html, {"我喜欢读书。": "I read.", "再见！": "Bye!"}, "html"
    )
    assert found == "<p>I\n  read.\nBye!</p>"
    for each in (text, html):
        assert RuleTranslator(keep).translate_document(each, "html") == each


def test_parts_of_long_sentences_have_spaces():
    translator = RuleTranslator(lambda text: ("I like dogs", ()), 10)
    found = translator.translate_document("我喜欢狗" * 8)
    assert found == "I like dogs I like dogs I like dogs I like dogs"


def _any():
    class Any(dict):
        def __missing__(self, key):
            return "Any."

    return Any()


def test_a_full_stop_of_india_is_followed_by_a_space():
    hindi = {"नमस्ते।": "Hello.", "अलविदा।": "Goodbye."}
    assert translate("नमस्ते।अलविदा। नमस्ते।", hindi)[0] == "Hello. Goodbye. Hello."
