"""A CTranslate2 model folder computes what the model does."""

import functools

import numpy as np
import pytest

from export.common.errors import InputError
from export.ctranslate2 import ctranslate2_weights
from export.ctranslate2.ctranslate2_translator import CTranslate2Translator
from export.ctranslate2.ctranslate2_weights import save_ctranslate2
from export.tokenizers.tokenizer import Tokenizer
from export.tokenizers.vocabulary_file import join_vocabularies
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.export import tiny

ctranslate2 = pytest.importorskip("ctranslate2")
TEXTS = made_up_text.sentences()[:12]
ALPHA = 0.6
MODELS = {
    "pre": {},
    "post": {"norm": "post", "share_embeddings": "all"},
    "gelu": {"activation": "gelu", "share_embeddings": "target-softmax"},
    "silu": {"activation": "silu", "norm": "post"},
    "learned": {"positions": "learned", "max_positions": 40},
    "no bias": {"attention_bias": False, "norm": "post"},
    "marian": {"output_bias": True, "sinusoid_rates": "marian"},
    "epsilon": {"layer_norm_epsilon": 0.1},
    "shallow decoder": {"num_layers": 3, "num_decoder_layers": 1},
    "deep decoder": {"num_layers": 1, "num_decoder_layers": 2, "norm": "post"},
}


@pytest.fixture(name="tokenizer", scope="module")
def fixture_tokenizer():
    return Tokenizer(made_up_text.vocabulary())


def translator(path, compute_type="default"):
    return ctranslate2.Translator(
        str(path), device="cpu", intra_threads=1, compute_type=compute_type
    )


def to_pieces(tokenizer, ids):
    return [tokenizer.id_to_token(number) for number in ids]


def to_ids(tokenizer, pieces):
    ids = _piece_ids(tokenizer)
    return [ids[piece] for piece in pieces]


@functools.cache
def _piece_ids(tokenizer):
    return {tokenizer.id_to_token(i): i for i in range(200)}


def log_probability(model, source, target, allowed=None):
    """Log-probability of a translation from the model's logits, in float64.

    The softmax is over the allowed ids; all by default.
    """
    given = np.array([[BEGIN_ID, *target[:-1]]])
    logits = model({"source": np.array([source]), "target": given})
    logits = np.asarray(logits[0], "float64")
    among = logits if allowed is None else logits[:, allowed]
    logs = logits - np.logaddexp.reduce(among, axis=1, keepdims=True)
    return logs[np.arange(len(target)), target].sum()


@pytest.mark.parametrize("name", MODELS)
def test_scores_match_the_model(tmp_path, tokenizer, name):
    model = tiny.model(**MODELS[name])
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    sources = tokenizer.encode(TEXTS)
    results = translator(tmp_path / "folder").translate_batch(
        [to_pieces(tokenizer, ids[:-1]) for ids in sources],
        beam_size=4,
        num_hypotheses=2,
        length_penalty=ALPHA,
        # By default the end is excluded at first, before the softmax.
        min_decoding_length=0,
        max_decoding_length=12,
        return_scores=True,
        return_end_token=True,
    )
    assert len({result.scores[0] for result in results}) == len(TEXTS)
    for source, result in zip(sources, results):
        for pieces, score in zip(result.hypotheses, result.scores):
            target = to_ids(tokenizer, pieces)
            expected = log_probability(model, source, target)
            expected /= len(target) ** ALPHA
            assert score == pytest.approx(expected, abs=1e-4)


def test_two_vocabularies_of_different_sizes(tmp_path, tokenizer):
    source_proto = made_up_text.vocabulary(230, seed=2)
    source_tokenizer = Tokenizer(source_proto)
    model = tiny.model(source_vocabulary_size=230, num_decoder_layers=1)
    folder = tmp_path / "folder"
    save_ctranslate2(
        model, join_vocabularies(source_proto, tokenizer.proto), folder
    )
    assert (folder / "source_vocabulary.model").read_bytes() == source_proto
    texts = made_up_text.sentences(100, seed=2)[:6]
    sources = source_tokenizer.encode(texts)
    assert max(map(max, sources)) >= 200
    results = translator(folder).translate_batch(
        [to_pieces(source_tokenizer, ids[:-1]) for ids in sources],
        beam_size=1,
        disable_unk=True,
        min_decoding_length=1,
        max_decoding_length=60,
        return_end_token=True,
    )
    config = model.config.replace(beam_size=1, max_extra_tokens=5)
    translations = CTranslate2Translator(folder, config, 512).translate(texts)
    assert len({each.text for each in translations}) > 1
    for each, source, result in zip(translations, sources, results):
        ids = to_ids(tokenizer, result.hypotheses[0])[: len(source) + 4]
        expected = log_probability(model, source, ids)
        expected /= ((5 + len(ids)) / 6) ** ALPHA
        assert each.text == tokenizer.decode([ids])[0]
        assert each.score == pytest.approx(expected, abs=1e-4)


def test_there_are_positions_for_the_longest_translation(tmp_path, tokenizer):
    model = tiny.model(norm="post", max_extra_tokens=1500)
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    (source,) = tokenizer.encode(TEXTS[:1])
    length = len(source) + 1500
    (result,) = translator(tmp_path / "folder").translate_batch(
        [to_pieces(tokenizer, source[:-1])],
        beam_size=1,
        min_decoding_length=length,
        max_decoding_length=length,
    )
    assert len(result.hypotheses[0]) == length


def test_a_quantized_folder_is_smaller_and_close(tmp_path, tokenizer):
    model = tiny.model(d_ff=256, num_layers=1)
    sources = [
        to_pieces(tokenizer, ids[:-1]) for ids in tokenizer.encode(TEXTS)
    ]
    targets = [["▁", "b", "a"]] * len(sources)
    sizes, scores = {}, {}
    for kind in ctranslate2_weights.QUANTIZATIONS:
        folder = tmp_path / kind
        save_ctranslate2(model, tokenizer.proto, folder, kind)
        sizes[kind] = (folder / "model.bin").stat().st_size
        # Products of int8 saturate without VNNI.
        reader = translator(folder, compute_type="float32")
        results = reader.score_batch(sources, targets)
        scores[kind] = np.array([sum(each.log_probs) for each in results])
    exact = scores.pop("float32")
    for kind, each in scores.items():
        assert sizes[kind] < 0.75 * sizes["float32"]
        assert np.abs(each - exact).mean() < 0.002 * np.abs(exact).mean()


def test_what_a_folder_cannot_hold_is_refused(tmp_path, tokenizer):
    words = {"first_source_word_id": 9, "first_target_word_id": 9}
    for changes, quantization, word in (
        ({"attention_window": 3}, "int8", "attention_window"),
        ({"positions": "words", **words}, "int8", "words"),
        ({"d_v": 4}, "int8", "d_v"),
        ({"vocabulary_size": 210}, "int8", "210"),
        ({"source_vocabulary_size": 230}, "int8", "230"),
        ({}, "int4", "int4"),
    ):
        model, path = tiny.model(**changes), tmp_path / "out"
        with pytest.raises(InputError, match=word):
            save_ctranslate2(model, tokenizer.proto, path, quantization)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(
        ctranslate2_weights.importlib.util, "find_spec", lambda name: None
    )
    with pytest.raises(InputError, match="requirements-serving.txt"):
        save_ctranslate2(None, tokenizer.proto, tmp_path / "folder")
