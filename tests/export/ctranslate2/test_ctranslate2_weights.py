"""A CTranslate2 model folder computes what the model does."""

import importlib.util

import numpy as np
import pytest

from export.common.errors import InputError
from export.ctranslate2 import ctranslate2_weights
from export.ctranslate2.ctranslate2_translator import CTranslate2Translator
from export.ctranslate2.ctranslate2_weights import save_ctranslate2
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.export import tiny

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None,
    reason="ctranslate2 is not installed (requirements-serving.txt)",
)
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
    import ctranslate2

    return ctranslate2.Translator(
        str(path), device="cpu", intra_threads=1, compute_type=compute_type
    )


def id_to_token(tokenizer, ids):
    return [tokenizer.id_to_piece(number) for number in ids]


def log_probabilities(model, sources, targets):
    """Of translations, from the model's logits, in float64."""
    logits = model(
        {
            "source": padded(sources),
            "target": padded([[BEGIN_ID, *ids[:-1]] for ids in targets]),
        }
    )
    logits = np.asarray(logits, "float64")
    logits -= logits.max(axis=2, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    return [
        sum(row[number] for row, number in zip(rows, ids))
        for rows, ids in zip(logs, targets)
    ]


def log_probability(model, source, target):
    """Of one translation."""
    return log_probabilities(model, [source], [target])[0]


def padded(lists):
    rows = np.zeros((len(lists), max(map(len, lists))), "int32")
    for row, ids in zip(rows, lists):
        row[: len(ids)] = ids
    return rows


@needs_ctranslate2
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_our_models_own(tmp_path, tokenizer, name):
    beam_size = 4
    model = tiny.model(**MODELS[name])
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    sources = tokenizer.encode(TEXTS)
    found = translator(tmp_path / "folder").translate_batch(
        [id_to_token(tokenizer, ids[:-1]) for ids in sources],
        beam_size=beam_size,
        num_hypotheses=beam_size,
        length_penalty=ALPHA,
        # By default the end is ruled out at first, before the softmax.
        min_decoding_length=0,
        max_decoding_length=12,
        return_scores=True,
        return_end_token=True,
    )
    numbers = {tokenizer.id_to_piece(i): i for i in range(200)}
    assert len({result.scores[0] for result in found}) == len(TEXTS)
    targets = [
        [numbers[piece] for piece in hypothesis]
        for result in found
        for hypothesis in result.hypotheses
    ]
    scores = [score for result in found for score in result.scores]
    assert len(scores) == beam_size * len(TEXTS)
    repeated = [ids for ids in sources for _ in range(beam_size)]
    sums = log_probabilities(model, repeated, targets)
    for ids, score, expected in zip(targets, scores, sums):
        expected /= len(ids) ** ALPHA
        assert score == pytest.approx(expected, abs=1e-4)


@needs_ctranslate2
@pytest.mark.parametrize("share", ["none", "target-softmax"])
def test_two_vocabularies_of_unlike_sizes(tmp_path, tokenizer, share):
    """Of the source those of other words, and more of them."""
    source_proto = made_up_text.vocabulary(230, seed=2)
    of_source = Tokenizer(source_proto)
    model = tiny.model(
        source_vocabulary_size=230, share_embeddings=share, num_decoder_layers=1
    )
    folder = tmp_path / "folder"
    save_ctranslate2(
        model, tokenizer.proto, folder, source_vocabulary=source_proto
    )
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.bin",
        "source_vocabulary.json",
        "target_vocabulary.json",
        "source_vocabulary.model",
        "vocabulary.model",
    }
    assert (folder / "source_vocabulary.model").read_bytes() == source_proto
    texts = made_up_text.sentences(100, seed=2)[:6]
    sources = of_source.encode(texts)
    assert max(map(max, sources)) >= 200
    results = translator(folder).translate_batch(
        [id_to_token(of_source, ids[:-1]) for ids in sources],
        beam_size=1,
        disable_unk=True,
        min_decoding_length=1,
        max_decoding_length=60,
        return_end_token=True,
    )
    numbers = {tokenizer.id_to_piece(i): i for i in range(200)}
    targets = [[numbers[each] for each in r.hypotheses[0]] for r in results]
    assert len(set(map(tuple, targets))) > 1
    peer = CTranslate2Translator(
        folder, model.config.replace(beam_size=1, max_output_extra=5), 512
    )
    found = peer.translate(texts)
    sums = [
        log_probability(model, source, ids[: len(source) + 4])
        for source, ids in zip(sources, targets)
    ]
    for each, ids, source, total in zip(found, targets, sources, sums):
        ids = ids[: len(source) + 4]
        penalty = ((5 + len(ids)) / 6) ** ALPHA
        assert each.text == tokenizer.decode([ids])[0]
        assert each.score == pytest.approx(total / penalty, abs=1e-4)


@needs_ctranslate2
def test_there_are_positions_for_the_longest_translation(tmp_path, tokenizer):
    model = tiny.model(norm="post", max_output_extra=1500)
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    (source,) = tokenizer.encode(TEXTS[:1])
    length = len(source) + 1500
    (result,) = translator(tmp_path / "folder").translate_batch(
        [id_to_token(tokenizer, source[:-1])],
        beam_size=1,
        min_decoding_length=length,
        max_decoding_length=length,
    )
    assert len(result.hypotheses[0]) == length


@needs_ctranslate2
@pytest.mark.parametrize("quantization", ["int8", "int16", "float16"])
def test_a_quantized_folder_is_smaller_and_near(
    tmp_path, tokenizer, quantization
):
    model = tiny.model(d_ff=256, num_layers=1)
    sizes, scores = {}, {}
    sources = [
        id_to_token(tokenizer, ids[:-1]) for ids in tokenizer.encode(TEXTS)
    ]
    targets = [["▁", "b", "a"]] * len(sources)
    for kind in ("float32", quantization):
        folder = tmp_path / kind
        save_ctranslate2(model, tokenizer.proto, folder, kind)
        sizes[kind] = (folder / "model.bin").stat().st_size
        # Products of int8 are another matter: without VNNI they saturate.
        reader = translator(folder, compute_type="float32")
        scores[kind] = [
            np.sum(result.log_probs)
            for result in reader.score_batch(sources, targets)
        ]
    assert sizes[quantization] < 0.75 * sizes["float32"]
    scores = np.array([scores["float32"], scores[quantization]])
    # Rounding to 8 bits moves these random models' scores by some hundredths.
    assert (
        np.abs(scores[1] - scores[0]).mean() < 0.002 * np.abs(scores[0]).mean()
    )


@needs_ctranslate2
def test_what_does_not_fit_is_refused(tmp_path, tokenizer):
    words = {"source_words_from": 9, "target_words_from": 9}
    own = {"source_vocabulary": tokenizer.proto}
    for changes, given, word in (
        ({"attention_window": 3}, {}, "attention_window"),
        ({"positions": "words", **words}, {}, "positions of words"),
        ({"d_v": 4}, {}, "d_v"),
        ({"vocabulary_size": 210}, {}, "200 pieces and the model 210"),
        ({"source_vocabulary_size": 230}, own, "200 pieces and the model 230"),
        ({"source_vocabulary_size": 200}, {}, "source_vocabulary"),
        ({}, {"quantization": "int4"}, "int4"),
    ):
        model = tiny.model(**changes)
        with pytest.raises(InputError, match=word):
            save_ctranslate2(model, tokenizer.proto, tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_it_says_so(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(
        ctranslate2_weights.importlib.util, "find_spec", lambda name: None
    )
    with pytest.raises(InputError, match="requirements-serving.txt"):
        save_ctranslate2(None, tokenizer.proto, tmp_path / "folder")
