"""The tokenizer chosen for a language, against sacreBLEU's own choice."""

import importlib.util
import urllib.error

import pytest
import sacrebleu
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_spm

from export.common.errors import InputError
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


def test_each_language_has_its_tokenizer(capsys):
    for name, languages in {
        # Vietnamese and Hindi have spaces between their words.
        "13a": ("de", "pt_BR", "xx", "vi", "hi"),
        "zh": ("zh", "zh-TW", "zho_Hans", "yue"),
        "ja-mecab": ("JA", "jpn_Jpan"),
        "ko-mecab": ("ko",),
    }.items():
        for language in languages:
            assert bleu_tokenizers.choose_tokenizer(language) == name
            assert bleu_tokenizers.choose_tokenizer(language, "char") == "char"
    assert capsys.readouterr().out == ""
    for language in ("zh", "ja", "ko"):
        expected = sacrebleu.BLEU(trg_lang=language).tokenizer_signature
        name = bleu_tokenizers.choose_tokenizer(language)
        found = bleu_tokenizers.make_bleu(name).tokenizer_signature
        assert found == expected


def test_characters_are_counted_where_it_is_not_installed(
    models, monkeypatch, capsys
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for language, name in (("th", "flores200"), ("ja", "ja-mecab")):
        assert bleu_tokenizers.choose_tokenizer(language) == "char"
        assert name in capsys.readouterr().out
    models.write_bytes(vocabulary())
    assert bleu_tokenizers.choose_tokenizer("km_KH") == "flores200"
    assert capsys.readouterr().out == ""


def test_refusals(monkeypatch, models):
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    for name, named in (
        ("ja-mecab", r"sacrebleu\[ja\]"),
        ("flores200", "no network"),
        ("such", "such"),
    ):
        with pytest.raises(InputError, match=named) as caught:
            bleu_tokenizers.choose_tokenizer("de", name)
        assert "\n" not in str(caught.value)
        assert not models.exists()


def test_workers_must_not_choose_by_what_is_installed():
    refuse = bleu_tokenizers.validate_explicit_tokenizer
    for language in ("ja", "ko_KR", "th"):
        with pytest.raises(InputError, match="--tokenize"):
            refuse(language, None)
        refuse(language, "char")
    refuse("zh", None)
