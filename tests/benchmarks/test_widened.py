"""A widened model computes what the narrow one does."""

import numpy as np
import pytest

from export.model_directory import ModelDirectory
from tests import made_up_text
from tests.benchmarks.commands import POST, run, write
from tests.export import tiny

TEXTS = made_up_text.sentences(50, seed=3)
SIZES = {"d_model": 64, "d_ff": 64, "num_heads": 4, "d_k": 16, "d_v": 24}


def smooth_model(**changes):
    """The tiny model's weights are so large that rounding errors grow."""
    made = tiny.model(**POST | changes)
    for weight in made.trainable_variables:
        if len(weight.shape) == 2 and weight.name != "embeddings":
            weight.assign(0.25 * weight.numpy())
    return made


def widen(path, **sizes):
    return run(
        "widened",
        f"--model_dir={path / 'narrow'}",
        f"--output_dir={path / 'wide'}",
        "--max_positions=40",
        *(f"--set={name}={value}" for name, value in (SIZES | sizes).items()),
    )


@pytest.mark.parametrize(
    "changes, sizes",
    [
        (
            {"positions": "learned", "max_positions": 40, "d_v": 6},
            {"num_layers": 2, "vocabulary_size": 200},
        ),
        (
            {"num_decoder_layers": 1, "attention_bias": False},
            {"num_layers": 5, "num_decoder_layers": 2, "vocabulary_size": 230},
        ),
        ({"norm": "pre"}, {"num_layers": 3, "vocabulary_size": 230}),
    ],
)
def test_a_widened_model_computes_the_same(tmp_path, changes, sizes):
    narrow = smooth_model(**changes)
    write(tmp_path / "narrow", narrow)
    done = widen(tmp_path, **sizes)
    assert done.code == 0, done.err
    directory = ModelDirectory(tmp_path / "wide")
    wide = directory.load_model()
    for name, value in {**SIZES, **sizes}.items():
        assert getattr(wide.config, name) == value
    assert wide.config.length_penalty == "power"
    assert directory.read_run() == {"dataset": "made up"}
    generator = np.random.default_rng(2)
    source, target = generator.integers(3, 200, (2, 5, 11)).astype("int32")
    source[2, 7:] = 0
    inputs = {"source": source, "target": target}
    logits = wide(inputs)
    np.testing.assert_allclose(logits[..., :200], narrow(inputs), atol=1e-4)
    assert np.std(narrow(inputs)) > 0.5
    np.testing.assert_allclose(logits[..., 200:], -50.0, rtol=1e-4)
    # It reads text as the narrow one does.
    tokenizers = [
        ModelDirectory(tmp_path / name).load_tokenizer()
        for name in ("wide", "narrow")
    ]
    assert tokenizers[0].vocabulary_size == sizes["vocabulary_size"]
    for one, other in zip(*(each.encode(TEXTS) for each in tokenizers)):
        assert list(one) == list(other)


@pytest.mark.slow
def test_what_cannot_be_widened_is_refused(tmp_path):
    untrained = tiny.model(**POST)
    norm = untrained.decoder.layers[-1].feed_forward_residual.layer_norm
    norm.beta.assign(np.zeros(norm.beta.shape))
    short = {"positions": "learned", "max_positions": 9}
    for number, (narrow, sizes, wrong) in enumerate(
        [
            (tiny.model(**POST | {"share_embeddings": "none"}), {}, "shared"),
            (tiny.model(**POST, **short), {}, "--max_positions"),
            (tiny.model(**POST), {"d_ff": 65}, "d_ff"),
            (untrained, {}, "vocabulary_size"),
        ]
    ):
        path = tmp_path / str(number)
        path.mkdir()
        write(path / "narrow", narrow)
        done = widen(path, **sizes)
        assert done.code == 2
        assert wrong in done.err
        assert not (path / "wide").exists()
