"""Translator against the search run eagerly, sentence by sentence."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory, load_models
from export.tokenizers.tokenizer import Tokenizer
from export.translators import search_flags
from export.translators.graph_translator import GraphTranslator
from export.translators.text_ops import padded_ids_to_tokens
from export.translators.translation import Translation
from export.translators.translator import Translator
from keras_transformer import config as model_config
from keras_transformer.config import END_ID
from keras_transformer.decoding import search_config
from tests import made_up_text
from tests.export import commands, tiny

TEXTS = made_up_text.sentences()[:20]
BLANK = Translation("", 0.0)


@pytest.fixture(scope="module")
def translations(translator):
    found = translator.translate(TEXTS)
    # Or comparisons would prove little.
    assert len({t.text for t in found}) > 15
    return found


def close(one, other):
    """Equal texts, equal scores but for rounding."""
    assert [t.text for t in one] == [t.text for t in other]
    np.testing.assert_allclose(
        [t.score for t in one], [t.score for t in other], atol=1e-4
    )


def test_a_new_seed_changes_nothing(translator, translations):
    # TensorFlow clears the vocabulary's resource.
    keras.utils.set_random_seed(1)
    close(translator.translate(TEXTS[:2]), translations[:2])


def search(translator, ids, extra=None, *arguments):
    """All translations of ids, by the search in fixed shapes."""
    if extra is None:
        extra = translator.model.config.max_extra_tokens
    tokens, scores, *_ = kt.translate_ids(
        translator.model, tf.constant([ids]), len(ids) + extra, *arguments
    )
    texts = translator.tokenizer.decode(tokens[0])
    return [*map(Translation, texts, scores[0].numpy().tolist())]


def test_translations_and_n_best_are_those_of_the_search(
    translator, translations
):
    found = translator.n_best(TEXTS, 3)
    close([best for best, *_ in found], translations)
    for text, three in zip(TEXTS[:2], found):
        (ids,) = translator.tokenizer.encode([text])
        close(three, search(translator, ids)[:3])
    for n in (0, 5):
        with pytest.raises(ValueError, match=f"4, got {n}"):
            translator.n_best(TEXTS[:1], n)


def test_order_and_batches_change_nothing(
    translator, translations, monkeypatch
):
    order = list(range(len(TEXTS)))
    random.Random(3).shuffle(order)
    shuffled = translator.translate(iter([TEXTS[i] for i in order]))
    close(shuffled, [translations[i] for i in order])
    for batch_tokens in (1, 9, 4096):
        monkeypatch.setattr(translator.backend, "batch_tokens", batch_tokens)
        close(translator.translate(TEXTS[:6]), translations[:6])


def test_blank_text_and_progress(translator, translations):
    assert translator.translate([]) == []
    texts = ["", TEXTS[0], " \t\n ", "\u3000", "\u200b", TEXTS[1], ""]
    steps = []
    found = translator.translate(texts, on_progress=steps.append)
    assert [found[i] for i in (0, 2, 3, 4, 6)] == [BLANK] * 5
    close([found[1], found[5]], translations[:2])
    assert sum(steps) == 2
    (unknown,) = translator.translate(["\u6f22\u5b57 \U0001f600."])
    assert np.isfinite(unknown.score) and unknown.score < 0


def test_long_sources_are_truncated_and_marked(translator, monkeypatch):
    limit = tiny.MAX_SOURCE_TOKENS
    monkeypatch.setattr(translator.backend, "max_source_tokens", limit)
    long = "ba bi " * 500
    (ids,) = translator.tokenizer.encode([long])
    expected = search(translator, [*ids[: limit - 1], END_ID])[0]
    found = translator.translate([long, TEXTS[0], "ba bi " * 5000])
    close([found[0], found[2]], [expected, expected])
    close([found[1]], translator.translate([TEXTS[0]]))
    texts = ["ba.", "g " * (limit - 1), "g " * limit, ""]
    marks = [False, False, True, False]
    assert [t.source_truncated for t in translator.translate(texts)] == marks


def test_learned_positions_are_a_limit_too(translator, eager):
    model = tiny.model(positions="learned", max_positions=6)
    limited = Translator.from_model(model, translator.tokenizer, min_length=0)
    long = " ".join(TEXTS[:4])
    (ids,) = translator.tokenizer.encode([long])
    (found,) = limited.translate([long])
    assert found.source_truncated
    close([found], search(limited, [*ids[:5], END_ID], 0)[:1])


def test_one_graph_serves_every_shape(translator, monkeypatch):
    traced, search_in_graph = [], GraphTranslator.search

    def record(*arguments, **options):
        traced.append(arguments)
        return search_in_graph(*arguments, **options)

    monkeypatch.setattr(GraphTranslator, "search", record)
    untraced = Translator.from_model(translator.model, translator.tokenizer)
    untraced.translate(TEXTS[:3])
    untraced.translate(TEXTS[3:17])
    assert len(traced) == 1


def test_the_search_can_be_changed(translator, eager):
    config = kt.BeamSearchConfig(beam_size=2, alpha=1.5)
    changed = Translator.from_model(
        translator.model,
        translator.tokenizer,
        beam_size=2,
        alpha=1.5,
        max_extra_tokens=2,
        min_length=3,
    )
    for text, best in zip(TEXTS[:2], changed.translate(TEXTS[:2])):
        (ids,) = translator.tokenizer.encode([text])
        limits = kt.Constraints(np.array([len(ids) + 1]), np.array([4]))
        close([best], search(translator, ids, 2, limits, config)[:1])


def test_translations_are_empty_only_on_request(translator, eager):
    model = tiny.model()
    end = np.asarray(model.output_embedding.embeddings)[END_ID]
    beta = model.decoder.final_norm.beta
    beta.assign(np.asarray(beta) + 50 * end / (end @ end))
    for options, length in (({}, 1), ({"min_length": 0}, 0)):
        ending = Translator.from_model(model, translator.tokenizer, **options)
        (pair,) = ending.translate_to_pairs(TEXTS[:1])
        assert pair.target.length - 1 == length


def test_alignment_is_the_attention_of_the_search(translator, translations):
    texts = [*TEXTS[:4], "", "b\u00e0  ka."]
    found = translator.align(texts)
    close(found[:4], translations[:4])
    assert found[4] == BLANK
    for text, translation in zip(texts, found):
        if text:
            expected = links(translator, text)
            assert translation.alignment == expected
            last = max(word for _, word in expected)
            assert last == len(translation.text.split()) - 1
            assert len(translation.word_log_probs) == last + 1


def test_words_and_the_end_have_the_probability_of_the_score(translator):
    for text, found in zip(TEXTS[:2], translator.align(TEXTS[:2])):
        (pair,) = translator.translate_to_pairs([text])
        end = kt.token_log_probs(
            translator.model, pair.source.ids[None], pair.target.ids[None]
        )[0, -1]
        penalty = ((5 + pair.target.length) / 6) ** 0.6
        total = sum(found.word_log_probs) + float(end)
        assert total / penalty == pytest.approx(found.score, abs=1e-5)
        assert max(found.word_log_probs) < 0


def links(translator, text):
    """From the layer's own weights."""
    (pair,) = translator.translate_to_pairs([text])
    source, given = pair.source.ids, pair.target.ids
    target = np.append([2], given[:-1])
    attention = translator.model.attention(
        {"source": source[None], "target": target[None]}
    )["cross"][0]
    best = np.mean(attention, axis=1)[0, :-1, :-1].argmax(axis=1)
    words = []
    for ids in (source, given):
        pieces = map(translator.tokenizer.id_to_token, ids[:-1].tolist())
        begins = np.array([piece.startswith("\u2581") for piece in pieces])
        # A first piece without a space before it begins a word, too.
        words.append(np.cumsum(begins) - begins[0])
    return tuple(sorted({*zip(words[0][best].tolist(), words[1].tolist())}))


def test_score_is_the_models_log_probability(translator):
    sources, targets = TEXTS[:6], TEXTS[6:12]
    found = translator.score([*sources, "", " "], [*targets, "", "ba."])
    assert found[6:] == [0.0, -1e9]
    for source, target, score in zip(sources, targets, found):
        ids, given = translator.tokenizer.encode([source, target])
        logits = translator.model(
            {"source": ids[None], "target": np.append([2], given[:-1])[None]}
        )
        logits = np.asarray(logits[0], np.float64)
        normal = np.log(np.sum(np.exp(logits), axis=-1))
        expected = np.sum(logits[np.arange(len(given)), given] - normal)
        np.testing.assert_allclose(score, expected, atol=1e-4)
    assert -1e8 < translator.score(["ba."], [""])[0] < 0
    with pytest.raises(ValueError):
        translator.score(["ba."], [])


def test_ids_that_the_vocabulary_lacks_end_no_process(translator):
    ids = tf.constant([[50, 10**6, -7, 200, 3, 0]])
    (pieces,) = padded_ids_to_tokens(translator.tokenizer, ids).numpy().tolist()
    known = translator.tokenizer.id_to_token(50).encode()
    assert pieces == [known, *[b"<unk>"] * 3, b"</s>", b""]


@pytest.mark.slow
def test_two_copies_of_a_model_translate_as_one(model_path, translator):
    texts = TEXTS[:4]
    expected = translator.align(texts)
    code, lines, err = commands.run(
        *("export.translate", model_path, texts, f"--model={model_path}"),
        *("--alignments", "--ensemble_mean=probabilities"),
    )
    assert (code, err) == (0, [])
    assert lines == [
        f"{each.text}\t" + " ".join(f"{s}-{t}" for s, t in each.alignment)
        for each in expected
    ]


def test_models_that_do_not_go_together_are_refused(model_path, tmp_path):
    directory = ModelDirectory(tmp_path)
    directory.write_config(tiny.config(vocabulary_size=100))
    directory.write_vocabulary(made_up_text.vocabulary(100))
    with pytest.raises(InputError, match="vocabularies"):
        load_models([model_path, tmp_path])
    with pytest.raises(InputError, match="--ensemble_mean"):
        load_models([model_path], "probabilities")


def test_weights_that_are_not_finite_translate_nothing(eager):
    made = tiny.model()
    gamma = next(w for w in made.weights if w.name == "gamma")
    gamma.assign(np.full(gamma.shape, np.nan, "float32"))
    broken = Translator.from_model(made, Tokenizer(made_up_text.vocabulary()))
    for method in (broken.translate, broken.align):
        with pytest.raises(InputError, match="weights"):
            method(["ba ka."])
        assert method([" "]) == [BLANK]


def test_samples_have_the_maximum_length_of_all_outputs(eager):
    limited = GraphTranslator(tiny.model(), max_output_tokens=3)
    source = tf.constant([[4, 5, 6, 7, END_ID]])
    for samples in 1, 8:
        config = kt.SamplingConfig(samples)
        tokens = limited.sample(source, tf.constant([1]), config).tokens
        assert not tokens[..., 3:].numpy().any()
        assert (tokens[..., :3] == END_ID).numpy().any(axis=-1).all()


def test_numbers_out_of_range_are_refused(translator):
    for name in ("MAX_BEAMS", "MAX_EXTRA_TOKENS", "MIN_ALPHA", "MAX_ALPHA"):
        assert getattr(search_flags, name) == getattr(model_config, name)
    assert search_flags.STOP_CRITERIA == search_config.STOP_CRITERIA
    for name, value in (
        ("min_length", -1),
        ("min_length", 2**31),
        ("max_extra_tokens", 10**9),
    ):
        with pytest.raises(ValueError, match=name):
            Translator.from_model(
                translator.model, translator.tokenizer, **{name: value}
            )
