"""Models whose vocabulary has byte tokens, in all that uses vocabularies."""

import json

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from export.ctranslate2.ctranslate2_model import (
    CTranslate2Backend,
    save_ctranslate2,
)
from export.model_directory import ModelDirectory
from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.hugging_face_writer import write_hugging_face
from export.serving.served_translator import ServedTranslator
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.translators import output_vocabulary_files
from export.translators.text_ops import target_word_spans
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

SIZE = 320
BYTES = range(4, 260)
TEXTS = [*made_up_text.sentences()[:4], "ba \U0001f600", "\u01ef", "5 \u13e3."]


@pytest.fixture(name="directory", scope="module")
def fixture_directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("bytes")
    # MarianMTModel has only these; greedy, since programs stop differently.
    model = tiny.model(
        vocabulary_size=SIZE, norm="post", share_embeddings="all", beam_size=1
    )
    directory = ModelDirectory(path)
    directory.write(model, made_up_text.byte_vocabulary(), {})
    return directory


@pytest.fixture(name="translator", scope="module")
def fixture_translator(directory):
    return tiny.translator(directory.path)


@pytest.fixture(name="expected", scope="module")
def fixture_expected(translator):
    texts = [each.text for each in translator.translate(TEXTS)]
    # Random weights generate bytes that are not UTF-8, as well as others.
    assert any("\ufffd" in text for text in texts)
    return texts


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=9).filter(lambda text: "\u2581" not in text))
def test_a_prefix_may_have_any_character(translator, prefix):
    (normalized,) = translator.normalize_prefixes([prefix])
    words = prefix.replace("\0", "").split(" ")
    assert normalized == " ".join(filter(None, words))


def test_translations_begin_with_characters_without_a_token(translator, eager):
    prefixes = ["\U0001f600 ba", "\u13e3"]
    found = translator.translate(TEXTS[:2], prefixes=prefixes)
    for translation, prefix in zip(found, prefixes, strict=True):
        assert translation.text.startswith(prefix)


def test_a_server_answers_the_same(directory, translator, expected, eager):
    model = directory.load_model()
    served = ServedTranslator(model, translator.tokenizer)
    answer = served.translate(TEXTS)["translation"].numpy()
    assert [text.decode() for text in answer] == expected


def test_words_of_byte_tokens(translator):
    tokenizer = translator.tokenizer
    (ids,) = tokenizer.encode(["ba \u01ef\U0001f600 \u13e3"])
    spans = target_word_spans(tokenizer, ids[None]).numpy()[0].tolist()
    expected, word = [], -1
    for token in map(tokenizer.id_to_token, ids[:-1]):
        word += token.startswith("\u2581")
        expected.append([word, word])
    assert spans[: len(expected)] == expected


def test_output_vocabularies_have_byte_tokens(translator, tmp_path):
    tokenizer = translator.tokenizer
    path = tmp_path / "target"
    path.write_text("ba ka.", encoding="utf-8")
    ids = output_vocabulary_files.collect_target_pieces(tokenizer, [path])
    assert {*BYTES} <= {*ids}
    path.write_text(made_up_shortlist(tokenizer), encoding="utf-8")
    shortlist = output_vocabulary_files.read_shortlist(
        path, tokenizer, translator.model.config, 40
    )
    for source in tokenizer.encode(TEXTS[4:]):
        found = np.asarray(shortlist.sentence_ids(source[None]))[0]
        assert {*source.tolist()} & {*BYTES} <= {*found.tolist()}


def test_hugging_face_keeps_byte_tokens(directory, expected, tmp_path, eager):
    model = directory.load_model()
    vocabulary = directory.read_vocabulary()
    write_hugging_face(model, vocabulary, ("en", "fr"), tmp_path)
    # As MarianTokenizer does.
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / "target.spm")
    )
    pieces = processor.encode("ba \u01ef\U0001f600.", out_type=str)
    assert {*pieces} <= json.loads((tmp_path / "vocab.json").read_text()).keys()
    assert processor.decode_pieces(pieces) == "ba \u01ef\U0001f600."
    pretrained = read_hugging_face(tmp_path)
    tokenizer = load_tokenizer(pretrained.vocabulary)
    for side in tokenizer.source, tokenizer.target:
        (ids,) = side.encode(["ba \u01ef\U0001f600."])
        assert side.decode([ids]) == ["ba \u01ef\U0001f600."]
    translator = Translator.from_model(
        pretrained.model,
        tokenizer,
        max_extra_tokens=model.config.max_extra_tokens,
    )
    assert [each.text for each in translator.translate(TEXTS)] == expected


def test_ctranslate2_keeps_byte_tokens(directory, expected, tmp_path):
    pytest.importorskip("ctranslate2")
    model, path = directory.load_model(), tmp_path / "folder"
    save_ctranslate2(model, directory.read_vocabulary(), path)
    found = Translator(CTranslate2Backend(path, model.config, 512)).translate(
        TEXTS
    )
    # At the maximum length CTranslate2 generates a token instead of the end.
    for translation, text in zip(found, expected, strict=True):
        assert translation.text.startswith(text)


def test_keras_hub_keeps_byte_tokens(directory, expected, eager):
    keras_hub_task = pytest.importorskip("export.keras_hub_task")
    task = keras_hub_task.TransformerSeq2SeqLM.from_preset(str(directory.path))
    task.preprocessor.encoder_sequence_length = 60
    task.preprocessor.decoder_sequence_length = 60
    assert task.generate(TEXTS) == expected
