"""Which tokeniser BLEU is counted with, against sacreBLEU's own."""

import importlib.util
import pathlib
import urllib.error

import pytest
import sacrebleu
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_spm

from export.errors import InputError
from tests.trainers.data.memory_corpus import vocabulary
from trainers.scores import bleu_tokenizers


@pytest.fixture
def models(tmp_path, monkeypatch):
    """An empty folder of sacreBLEU's, so that nothing of this user's counts."""
    path = tmp_path / "models" / "flores200sacrebleuspm"
    path.parent.mkdir()
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(bleu_tokenizers, "_FLORES200", path)

    def refuse(*_):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(tokenizer_spm, "download_file", refuse)
    return path


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("de", "13a"),
        ("pt_BR", "13a"),
        ("xx", "13a"),
        # Vietnamese and Hindi have spaces between their words.
        ("vi", "13a"),
        ("hi", "13a"),
        ("zh", "zh"),
        ("zh-TW", "zh"),
        ("zho_Hans", "zh"),
        ("yue", "zh"),
        ("JA", "ja-mecab"),
        ("jpn_Jpan", "ja-mecab"),
        ("ko", "ko-mecab"),
    ],
)
def test_each_language_has_its_tokeniser(language, name, capsys):
    assert bleu_tokenizers.choose(language) == name
    assert capsys.readouterr().out == ""


def test_it_counts_as_sacrebleu_recommends():
    """sacreBLEU knows itself what these three want."""
    for language in ("zh", "ja", "ko"):
        theirs = sacrebleu.BLEU(trg_lang=language)
        ours = bleu_tokenizers.metric(bleu_tokenizers.choose(language))
        assert ours.tokenizer_signature == theirs.tokenizer_signature


def test_without_spaces_flores200_where_it_is_there(models, capsys):
    assert bleu_tokenizers.choose("th") == "char"
    said = capsys.readouterr().out
    assert "flores200, the usual tokeniser for th, is not installed" in said
    models.write_bytes(vocabulary())
    assert bleu_tokenizers.choose("km_KH") == "flores200"
    assert capsys.readouterr().out == ""


def test_what_is_not_installed_is_said(monkeypatch, capsys):
    def none(name):
        assert name in ("MeCab", "ipadic")

    monkeypatch.setattr(importlib.util, "find_spec", none)
    assert bleu_tokenizers.choose("ja") == "char"
    assert capsys.readouterr().out == (
        "BLEU counts characters (char): ja-mecab, the usual tokeniser for ja, "
        "is not installed; pip install 'sacrebleu[ja]' gets it.\n"
    )


def test_who_asks_gets_it_whatever_the_language():
    for name in ("13a", "char", "none", "ko-mecab"):
        assert bleu_tokenizers.choose("zh", name) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ja-mecab", r"pip install 'sacrebleu\[ja\]'"),
        ("flores200", "no network"),
        ("such", "no tokeniser 'such'"),
        (["13a"], "no tokeniser"),
    ],
)
def test_what_cannot_be_used_is_refused(monkeypatch, models, name, message):
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(InputError, match=message) as caught:
        bleu_tokenizers.choose("de", name)
    assert "\n" not in str(caught.value)
    assert not pathlib.Path(models).exists()


@pytest.mark.parametrize("language", ["ja", "ko_KR", "th"])
def test_machines_may_not_choose_each_for_itself(language):
    refuse = bleu_tokenizers.refuse_if_machines_may_differ
    with pytest.raises(InputError, match="the same --tokenize"):
        refuse(language, None)
    refuse(language, "char")
    refuse("zh", None)
    refuse("de", None)


def test_half_of_a_chinese_sentence_is_half_right():
    found, right = (
        ["我今天去商店买了一些东西。"],
        [["我今天去商店买了很多水果。"]],
    )
    of_13a = sacrebleu.BLEU().corpus_score(found, right).score
    ours = bleu_tokenizers.metric(bleu_tokenizers.choose("zh"))
    assert of_13a < 1
    assert 40 < ours.corpus_score(found, right).score < 80
