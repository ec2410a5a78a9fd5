"""A widened model computes what the narrow one does."""

import numpy as np
import pytest

from export.model_directory import ModelDirectory
from tests import made_up_text
from tests.benchmarks.decoding import POST, run, run_alone, write
from tests.export import tiny


def smooth_model(**changes):
    """The tiny model's weights are so large that rounding errors grow."""
    made = tiny.model(**changes)
    for weight in made.trainable_variables:
        if len(weight.shape) == 2 and weight.name != "embeddings":
            weight.assign(0.25 * weight.numpy())
    return made


@pytest.mark.parametrize(
    "run, changes",
    [
        (run_alone, {}),
        (run, {"positions": "learned", "max_positions": 40}),
        (run, {"d_v": 6}),
    ],
)
def test_a_widened_model_computes_the_same(tmp_path, run, changes):
    narrow = smooth_model(**POST, **changes)
    write(tmp_path / "narrow", narrow)
    done = run(
        "widened",
        f"--model_dir={tmp_path / 'narrow'}",
        f"--output_dir={tmp_path / 'wide'}",
        "--copies=4",
        "--max_positions=40",
    )
    assert done.code == 0, done.err
    directory = ModelDirectory(tmp_path / "wide")
    wide = directory.load_model()
    assert wide.config.d_model == 64
    assert wide.config.num_heads == 8
    assert wide.config.d_ff == 128
    assert wide.config.d_k == narrow.config.d_k
    assert wide.config.length_penalty == "power"
    assert directory.read_vocabulary() == made_up_text.vocabulary()
    assert directory.read_run() == {"dataset": "made up"}
    generator = np.random.default_rng(2)
    source, target = generator.integers(3, 200, (2, 5, 11)).astype("int32")
    source[2, 7:] = 0
    inputs = {"source": source, "target": target}
    np.testing.assert_allclose(wide(inputs), narrow(inputs), atol=1e-4)
    assert np.std(narrow(inputs)) > 0.5


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"norm": "pre", "share_embeddings": "all"}, "post-norm"),
        ({"norm": "post", "share_embeddings": "none"}, "post-norm"),
        (POST | {"positions": "learned", "max_positions": 9}, "9 positions"),
    ],
)
def test_what_cannot_be_widened_is_refused(tmp_path, changes, message):
    write(tmp_path / "narrow", tiny.model(**changes))
    done = run(
        "widened",
        f"--model_dir={tmp_path / 'narrow'}",
        f"--output_dir={tmp_path / 'wide'}",
    )
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "wide").exists()
