"""Translation of lists of text."""

import random

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

import keras_transformer as kt
from export.common.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from export.translators import text_ids
from export.translators.id_translator import IdTranslator
from export.translators.translator import Translation, Translator
from export.translators.truncation import pieces_of
from keras_transformer import fields
from keras_transformer.config import END_ID
from tests import made_up_text
from tests.export import tiny

TEXTS = made_up_text.sentences()[:20]


@pytest.fixture(scope="module")
def translations(translator):
    return translator.translate(TEXTS)


def close(one, other):
    """Equal texts, equal scores but for rounding."""
    assert [t.text for t in one] == [t.text for t in other]
    np.testing.assert_allclose(
        [t.score for t in one], [t.score for t in other], atol=1e-4
    )


def test_the_tiny_model_is_worth_comparing(translations):
    assert len({t.text for t in translations}) > 15
    assert all(np.isfinite(t.score) and t.score < 0 for t in translations)


def test_equals_the_search_run_eagerly_sentence_by_sentence(
    translator, translations
):
    expected = []
    for text in TEXTS[:4]:
        (ids,) = translator.tokenizer.encode([text])
        room = len(ids) + translator.model.config.max_output_extra
        tokens, scores, *_ = kt.translate_ids(
            translator.model, tf.constant([ids]), room
        )
        (decoded,) = translator.tokenizer.decode(tokens[:, 0])
        expected.append(Translation(decoded, float(scores[0, 0])))
    close(translations[:4], expected)


def test_order_is_kept_whatever_the_lengths(translator, translations):
    order = list(range(len(TEXTS)))
    random.Random(3).shuffle(order)
    shuffled = translator.translate([TEXTS[i] for i in order])
    close(shuffled, [translations[i] for i in order])


def test_alone_as_in_a_batch(translator, translations):
    for number in (0, 7, 19):
        close(translator.translate([TEXTS[number]]), [translations[number]])


def test_a_full_batch_and_one_more(translator):
    # Eight rows of eight ids are a batch of 64.
    texts = ["ba.", *["bi ka."] * 8, "ba."]
    found = translator.translate(texts)
    close(found[1:9], [found[1]] * 8)
    close(found[9:], found[:1])


def test_nothing_and_blanks(translator, translations):
    assert translator.translate([]) == []
    blank = Translation("", 0.0)
    texts = ["", TEXTS[0], " \t\n ", "\u3000", "\u200b", TEXTS[1], ""]
    found = translator.translate(texts)
    for place in (0, 2, 3, 4, 6):
        assert found[place] == blank
    close([found[1], found[5]], translations[:2])
    assert translator.translate([""]) == [blank]


def test_texts_may_come_in_any_sequence(translator, translations):
    close(translator.translate(tuple(TEXTS[:2])), translations[:2])
    close(translator.translate(iter(TEXTS[:2])), translations[:2])


def test_unknown_characters_are_translated_too(translator):
    (found,) = translator.translate(["\u6f22\u5b57 \U0001f600."])
    assert np.isfinite(found.score)
    assert found.score < 0


def test_an_over_long_source_is_cut(translator, monkeypatch):
    monkeypatch.setattr(translator, "max_source_tokens", tiny.MAX_SOURCE_TOKENS)
    long = "ba bi " * 500
    (ids,) = translator.tokenizer.encode([long])
    assert len(ids) > 1000
    kept = np.append(ids[: tiny.MAX_SOURCE_TOKENS - 1], 3)[None]
    room = kept.shape[1] + translator.model.config.max_output_extra
    tokens, scores, *_ = kt.translate_ids(
        translator.model, tf.constant(kept, tf.int32), room
    )
    (text,) = translator.tokenizer.decode(tokens[:, 0])
    expected = Translation(text, float(scores[0, 0]))
    found = translator.translate([long, TEXTS[0], "ba bi " * 5000])
    close([found[0], found[2]], [expected, expected])
    close([found[1]], translator.translate([TEXTS[0]]))


def test_learned_positions_are_a_limit_too(translator):
    model = tiny.model(positions="learned", max_positions=6)
    limited = Translator(model, translator.tokenizer, min_length=0)
    long = " ".join(TEXTS[:4])
    (ids,) = translator.tokenizer.encode([long])
    (found,) = limited.translate([long])
    assert found.source_truncated
    tokens, scores, *_ = kt.translate_ids(
        model, tf.constant([[*ids[:5], END_ID]]), 6
    )
    (decoded,) = translator.tokenizer.decode(tokens[:, 0])
    close([found], [Translation(decoded, float(scores[0, 0]))])


def test_progress_counts_every_sentence_that_is_not_blank(translator):
    steps = []
    translator.translate([*TEXTS, "", " "], on_progress=steps.append)
    assert sum(steps) == len(TEXTS)
    assert len(steps) > 1


def test_one_graph_serves_every_shape(translator, monkeypatch):
    traced, search = [], IdTranslator.search

    def noted(*arguments, **asked):
        traced.append(arguments)
        return search(*arguments, **asked)

    monkeypatch.setattr(IdTranslator, "search", noted)
    untraced = Translator(translator.model, translator.tokenizer)
    untraced.translate(TEXTS[:3])
    untraced.translate(TEXTS[3:17])
    assert len(traced) == 1


@pytest.mark.parametrize("batch_tokens", [1, 9, 4096])
def test_the_size_of_batches_changes_nothing(
    translator, translations, batch_tokens, monkeypatch
):
    monkeypatch.setattr(translator, "batch_tokens", batch_tokens)
    close(translator.translate(TEXTS[:6]), translations[:6])


def test_n_best_are_the_searchs_and_begin_with_the_best(
    translator, translations
):
    found = translator.n_best(TEXTS, 3)
    close([best for best, *_ in found], translations)
    for text, three in zip(TEXTS[:3], found):
        (ids,) = translator.tokenizer.encode([text])
        room = len(ids) + translator.model.config.max_output_extra
        tokens, scores, *_ = kt.translate_ids(
            translator.model, tf.constant([ids]), room
        )
        texts = translator.tokenizer.decode(tokens[0, :3])
        close(three, [*map(Translation, texts, scores[0, :3].numpy())])
    for three in found:
        scores = [t.score for t in three]
        assert scores == sorted(scores, reverse=True)


def test_n_best_of_blanks_is_one_blank(translator):
    blank, text = translator.n_best([" ", TEXTS[0]], 2)
    assert blank == [Translation("", 0.0)]
    assert len(text) == 2


@pytest.mark.parametrize("n", [0, 5])
def test_n_is_at_most_the_beam(translator, n):
    with pytest.raises(ValueError, match=f"4, not {n}"):
        translator.n_best(TEXTS[:1], n)


def test_fewer_than_n_where_fewer_are_possible(translator):
    # One token has room for the end id alone.
    short = Translator(
        translator.model, translator.tokenizer, max_output_extra=0
    )
    ((only,),) = short.n_best(["g"], 4)
    assert only.text == "" or len(only.text.split()) == 1


def test_the_search_can_be_changed(translator, translations):
    def found(**search):
        return Translator(
            translator.model, translator.tokenizer, **search
        ).n_best(TEXTS[:3], 1)

    same = found(beam_size=4, alpha=0.6, max_output_extra=5, min_length=1)
    close([best for (best,) in same], translations[:3])
    rules = kt.BeamSearchConfig(beam_size=2, alpha=1.5)
    for text, (best,) in zip(
        TEXTS, found(beam_size=2, alpha=1.5, max_output_extra=2)
    ):
        (ids,) = translator.tokenizer.encode([text])
        tokens, scores, *_ = kt.translate_ids(
            translator.model,
            tf.constant([ids]),
            len(ids) + 2,
            kt.Constraints(np.array([len(ids) + 1]), np.array([2])),
            rules,
        )
        (decoded,) = translator.tokenizer.decode(tokens[:, 0])
        close([best], [Translation(decoded, float(scores[0, 0]))])


def test_a_least_length_is_kept(translator, translations):
    long = Translator(translator.model, translator.tokenizer, min_length=8)
    for text, found in zip(TEXTS, long.translate(TEXTS)):
        (ids,) = translator.tokenizer.encode([text])
        source = tf.constant([ids])
        tokens = long._graphs.search(source).tokens
        pieces = np.count_nonzero(tokens[0, 0]) - 1
        assert pieces >= min(8, len(ids) + 3)
        assert found.text


@pytest.mark.parametrize("min_length", [0, 1])
def test_nothing_is_said_only_where_that_is_asked_for(translator, min_length):
    model = tiny.model()
    end = np.asarray(model.output_embedding.embeddings)[END_ID]
    beta = model.decoder.final_norm.beta
    beta.assign(np.asarray(beta) + 50 * end / (end @ end))
    search = {} if min_length == 1 else {"min_length": min_length}
    doubtful = Translator(model, translator.tokenizer, **search)
    (ids,) = translator.tokenizer.encode([TEXTS[0]])
    source = tf.constant([ids])
    tokens = doubtful._graphs.search(source).tokens
    assert np.count_nonzero(tokens[0, 0]) - 1 == min_length
    assert [each.text for each in doubtful.translate([""])] == [""]


@pytest.mark.parametrize("search", [{"beam_size": 0}, {"alpha": -1.0}])
def test_a_search_out_of_range_is_refused(translator, search):
    with pytest.raises(ValueError, match=next(iter(search))):
        Translator(translator.model, translator.tokenizer, **search)


def test_alignment_is_the_attention_of_the_search(translator, translations):
    texts = [*TEXTS[:4], "", "b\u00e0  ka."]
    found = translator.align(texts)
    close(found[:4], translations[:4])
    assert found[4] == Translation("", 0.0)
    pieces = tf_text.SentencepieceTokenizer(
        model=translator.tokenizer.proto, add_eos=True, name="offsets"
    )
    for text, translation in zip(texts, found):
        if text:
            expected = links(translator, pieces, text)
            assert translation.alignment == expected
            assert expected
            assert max(word for word, _ in expected) < len(text.split())
            last = max(word for _, word in expected)
            assert last == len(translation.text.split()) - 1


def links(translator, pieces, text):
    """From the layer's own weights, and SentencePiece's own places."""
    (ids,) = translator.tokenizer.encode([text])
    room = len(ids) + translator.model.config.max_output_extra
    tokens, *_ = kt.translate_ids(translator.model, tf.constant([ids]), room)
    target = tokens[0, 0].numpy()
    target = target[target != 0]
    attention = translator.model.attention(
        {"source": ids[None], "target": np.append([2], target[:-1])[None]}
    )["cross"][0]
    weights = np.mean(attention, axis=1)[0, :-1, :-1]
    _, starts, _ = pieces.tokenize_with_offsets(text)
    befores = [text.encode()[:start].decode() for start in starts[:-1].numpy()]
    source = [
        # Within a word, what is before is a part of it.
        len(before.split()) - (text[len(before)] != " " and before[-1:] > " ")
        for before in befores
    ]
    words, word = [], -1
    for piece in pieces.id_to_string(target[:-1]).numpy():
        word += piece.decode().startswith("\u2581") or word < 0
        words.append(word)
    return tuple(sorted(set(zip(np.take(source, weights.argmax(1)), words))))


def test_score_is_the_models_log_probability(translator):
    sources, targets = TEXTS[:6], TEXTS[6:12]
    found = translator.score(sources, targets)
    for source, target, score in zip(sources, targets, found):
        ids, given = translator.tokenizer.encode([source, target])
        logits = translator.model(
            {"source": ids[None], "target": np.append([2], given[:-1])[None]}
        )
        logits = np.asarray(logits[0], np.float64)
        normal = np.log(np.sum(np.exp(logits), axis=-1))
        expected = np.sum(logits[np.arange(len(given)), given] - normal)
        np.testing.assert_allclose(score, expected, atol=1e-4)


def test_score_of_blanks(translator):
    nothing, impossible, possible = translator.score(
        ["", " ", TEXTS[0]], ["", "ba.", ""]
    )
    assert (nothing, impossible) == (0.0, -1e9)
    assert -1e8 < possible < 0
    assert translator.score([], []) == []
    with pytest.raises(ValueError):
        translator.score(["ba."], [])


def test_ids_that_the_vocabulary_lacks_end_no_process(translator):
    ids = tf.constant([[50, 10**6, -7, 200, 3, 0]])
    (pieces,) = pieces_of(translator.tokenizer, ids).numpy().tolist()
    known = translator.tokenizer.id_to_piece(50).encode()
    assert pieces == [known, *[b"<unk>"] * 3, b"</s>", b""]


def test_what_is_cut_is_marked(translator, monkeypatch):
    monkeypatch.setattr(translator, "max_source_tokens", tiny.MAX_SOURCE_TOKENS)
    texts = ["ba.", "g " * 15, "g " * 16, ""]
    marks = [False, False, True, False]
    assert [t.source_truncated for t in translator.translate(texts)] == marks
    assert [t.source_truncated for t in translator.align(texts)] == marks
    n_best = translator.n_best(texts, 2)
    assert [all(t.source_truncated for t in two) for two in n_best] == marks


def test_a_directory_that_is_not_whole_is_refused(tmp_path):
    with pytest.raises(InputError, match=str(tmp_path)):
        Translator.from_directory(tmp_path)


def test_from_directory_has_the_directorys_model(model_path, translator):
    loaded = Translator.from_directory(model_path, batch_tokens=9)
    assert loaded.batch_tokens == 9
    assert loaded.model.config == translator.model.config
    assert loaded.tokenizer.proto == translator.tokenizer.proto


@pytest.mark.parametrize("ask", ["translate", "align"])
def test_weights_that_are_no_numbers_translate_nothing(ask):
    made = tiny.model()
    gamma = next(w for w in made.weights if w.name == "gamma")
    gamma.assign(np.full(gamma.shape, np.nan, "float32"))
    translator = Translator(made, Tokenizer(made_up_text.vocabulary()))
    with pytest.raises(InputError, match="its weights must be damaged"):
        getattr(translator, ask)(["ba ka."])
    blank = getattr(translator, ask)([" "])
    assert [(each.text, each.score) for each in blank] == [("", 0.0)]


def test_flags_have_the_limits_of_a_configuration():
    names = "MAX_BEAMS", "MAX_EXTRA", "MAX_ALPHA"
    assert [getattr(text_ids, name) for name in names] == [
        getattr(fields, name) for name in names
    ]


@pytest.mark.parametrize(
    "search",
    [
        {"min_length": -1},
        {"min_length": 2**31},
        {"max_output_tokens": 0},
        {"max_output_extra": 10**9},
        {"beam_size": 10**9},
        {"alpha": 50.0},
    ],
    ids=str,
)
def test_numbers_without_a_meaning_are_refused(translator, search):
    with pytest.raises(ValueError, match=next(iter(search))):
        Translator(translator.model, translator.tokenizer, **search)
