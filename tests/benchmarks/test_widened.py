"""A widened model computes what the narrow one does."""

import numpy as np
import pytest

from export.model_directory import ModelDirectory
from tests import made_up_text
from tests.benchmarks.decoding import POST, run, run_alone, write
from tests.export import tiny

SIZES = {"d_model": 64, "d_ff": 64, "num_heads": 4, "d_k": 16, "d_v": 24}


def smooth_model(**changes):
    """The tiny model's weights are so large that rounding errors grow."""
    made = tiny.model(**changes)
    for weight in made.trainable_variables:
        if len(weight.shape) == 2 and weight.name != "embeddings":
            weight.assign(0.25 * weight.numpy())
    return made


def widen(run, path, **sizes):
    return run(
        "widened",
        f"--model_dir={path / 'narrow'}",
        f"--output_dir={path / 'wide'}",
        "--max_positions=40",
        *(f"--set={name}={value}" for name, value in sizes.items()),
    )


@pytest.mark.parametrize(
    "run, changes, sizes",
    [
        pytest.param(
            run_alone,
            {},
            {"num_layers": 3, "vocabulary_size": 230},
            marks=pytest.mark.slow,
        ),
        (
            run,
            {"positions": "learned", "max_positions": 40},
            {"num_layers": 2, "vocabulary_size": 200},
        ),
        (
            run,
            {"d_v": 6, "attention_bias": False},
            {"num_layers": 5, "vocabulary_size": 201},
        ),
        (
            run,
            {"num_decoder_layers": 1},
            {"num_layers": 3, "num_decoder_layers": 2, "vocabulary_size": 200},
        ),
    ],
)
def test_a_widened_model_computes_the_same(tmp_path, run, changes, sizes):
    narrow = smooth_model(**POST, **changes)
    write(tmp_path / "narrow", narrow)
    done = widen(run, tmp_path, **SIZES, **sizes)
    assert done.code == 0, done.err
    directory = ModelDirectory(tmp_path / "wide")
    wide = directory.load_model()
    for name, value in {**SIZES, **sizes}.items():
        assert getattr(wide.config, name) == value
    assert wide.config.length_penalty == "power"
    if sizes["vocabulary_size"] == 200:
        assert directory.read_vocabulary() == made_up_text.vocabulary()
    assert directory.read_run() == {"dataset": "made up"}
    generator = np.random.default_rng(2)
    source, target = generator.integers(3, 200, (2, 5, 11)).astype("int32")
    source[2, 7:] = 0
    inputs = {"source": source, "target": target}
    logits = wide(inputs)
    np.testing.assert_allclose(logits[..., :200], narrow(inputs), atol=1e-4)
    assert np.std(narrow(inputs)) > 0.5
    np.testing.assert_allclose(logits[..., 200:], -50.0, rtol=1e-4)


def test_a_widened_model_reads_text_as_the_narrow_one(tmp_path):
    write(tmp_path / "narrow", smooth_model(**POST))
    assert widen(run, tmp_path, **SIZES, vocabulary_size=230).code == 0
    ours = ModelDirectory(tmp_path / "wide").load_tokenizer()
    theirs = ModelDirectory(tmp_path / "narrow").load_tokenizer()
    assert (ours.vocabulary_size, theirs.vocabulary_size) == (230, 200)
    texts = made_up_text.sentences(50, seed=3)
    assert [list(row) for row in ours.encode(texts)] == [
        list(row) for row in theirs.encode(texts)
    ]
    assert ours.id_to_piece(229) == "<added_229>"


@pytest.mark.parametrize(
    "changes, sizes, message",
    [
        ({"norm": "pre", "share_embeddings": "all"}, {}, "post-norm"),
        ({"norm": "post", "share_embeddings": "none"}, {}, "post-norm"),
        (
            POST | {"positions": "learned", "max_positions": 9},
            {},
            "9 positions",
        ),
        (POST, {"d_ff": 65}, "d_ff must be a multiple of the narrow model's"),
        (POST, {"num_layers": 1}, "num_layers must be at least the narrow"),
    ],
)
def test_what_cannot_be_widened_is_refused(tmp_path, changes, sizes, message):
    write(tmp_path / "narrow", tiny.model(**changes))
    done = widen(run, tmp_path, **SIZES | sizes)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "wide").exists()


def test_pieces_are_not_added_to_an_untrained_model(tmp_path):
    made = tiny.model(**POST)
    norm = made.decoder.layers[-1].feed_forward_residual.layer_norm
    norm.beta.assign(np.zeros(norm.beta.shape))
    write(tmp_path / "narrow", made)
    done = widen(run, tmp_path, **SIZES)
    assert done.code == 2
    assert "was it trained?" in done.err
