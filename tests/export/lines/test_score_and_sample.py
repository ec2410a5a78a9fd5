"""The commands that score and draw translations."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from export.translators.text_translator import Translation
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import commands

SOURCES = [*made_up_text.sentences()[:9], "", "ba ka."]
TEXTS = ["ba ka.", "", "do ri ba bi ka mu.", "mu.", "ri ri ba ka do bi."]


def test_scores_of_pairs_in_order(exported, translator, tmp_path):
    translations = [*(each.text for each in translator.translate(SOURCES))]
    translations[9:] = ["ka", ""]
    path = tmp_path / "translations"
    path.write_text("".join(f"{line}\n" for line in translations))
    code, lines, err = commands.run(
        "export.score", exported, SOURCES, f"--translations={path}"
    )
    assert (code, err) == (0, [])
    expected = translator.score(SOURCES, translations)
    np.testing.assert_allclose(
        [float(line) for line in lines], expected, atol=1e-4
    )
    assert len(set(lines)) > 8


@pytest.mark.parametrize(
    ("content", "named"),
    [(b"ba\n" * 3, "--input has a line 4"), (b"ba\n\xff\n", "Line 2 of --tr")],
)
def test_invalid_translations_are_refused(exported, tmp_path, content, named):
    path = tmp_path / "bad"
    path.write_bytes(content)
    code, lines, err = commands.run(
        "export.score", exported, SOURCES, f"--translations={path}"
    )
    assert (code, lines) == (2, [])
    assert named in err[0]


def test_a_sentence_has_its_own_samples_in_any_batch(translator):
    rules = kt.SamplingConfig(samples=3)
    seeds = [7, 8, 9, 10, 11]
    together = translator.sample(TEXTS, seeds, rules)
    assert [len(drawn) for drawn in together] == [3, 1, 3, 3, 3]
    assert together[1] == [Translation("", 0.0)]
    for text, seed, expected in zip(TEXTS, seeds, together):
        (alone,) = translator.sample([text], [seed], rules)
        assert [each.text for each in alone] == [each.text for each in expected]
        np.testing.assert_allclose(
            [each.score for each in alone],
            [each.score for each in expected],
            atol=1e-4,
        )
    other = translator.sample(TEXTS, [seed + 1 for seed in seeds], rules)
    assert other != together


def test_a_low_temperature_gives_the_greedy_search(translator):
    greedy = Translator(
        translator.model,
        translator.tokenizer,
        beam_size=1,
        stop_criterion="k_finished",
    )
    cold = translator.sample(
        TEXTS, range(5), kt.SamplingConfig(temperature=1e-3)
    )
    assert [drawn.text for (drawn,) in cold] == [
        each.text for each in greedy.translate(TEXTS)
    ]


def test_scores_are_the_models_own_log_probabilities(translator):
    (source,) = translator.tokenizer.encode([TEXTS[2]])
    source = tf.constant([source])
    drawn = kt.sample_ids(
        translator.model,
        source,
        12,
        tf.constant([3]),
        kt.SamplingConfig(samples=4, temperature=0.7, top_k=20),
    )
    for tokens, score in zip(drawn.tokens[0], drawn.log_probs[0]):
        own = kt.score_ids(translator.model, source, tokens[None])
        np.testing.assert_allclose(own[0], score, atol=1e-4)


def test_the_command_draws_in_order(model_path, translator):
    drawn = translator.sample(
        TEXTS, range(40, 45), kt.SamplingConfig(samples=2)
    )
    code, lines, err = commands.run(
        "export.sample", model_path, TEXTS, "--samples=2", "--seed=40"
    )
    assert (code, err) == (0, [])
    found = [line.split(" ||| ") for line in lines]
    expected = [
        (str(number), each.text)
        for number, several in enumerate(drawn)
        for each in several
    ]
    assert [(number, text) for number, text, _ in found] == expected
    np.testing.assert_allclose(
        [float(score) for *_, score in found],
        [each.score for several in drawn for each in several],
        atol=1e-4,
    )
