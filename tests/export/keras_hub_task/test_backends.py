"""`generate` answers and refuses the same calls on TensorFlow and on JAX."""

import itertools
import json
import os
import subprocess
import sys

import pytest

from tests import made_up_text
from tests.export import tiny
from tests.export.keras_hub_task import answer_calls

pytestmark = pytest.mark.filterwarnings("ignore:.*compile.. was not called")
SENTENCES = made_up_text.sentences()
# Sources, and what their translations begin with.
PAIRS = [
    *((text, "") for text in SENTENCES[:4]),
    ("", ""),
    ("  ", "ba"),
    ("ba ka do " * 9, "ba ka do " * 9),
    ("\u6f22 ba </s>", "\ufb01  b\u00e0 "),
]
BOTH = dict(zip(("encoder_text", "decoder_text"), map(list, zip(*PAIRS))))
INPUTS = [
    BOTH,
    SENTENCES[:3],
    SENTENCES[0],
    [],
    BOTH | {"decoder_text": ["ba"]},
    BOTH | {"decoder_text": [3] * len(PAIRS)},
    {"encoder_text": "ba", "decoder_text": "\u6f22"},
    {"encoder_text": "ba", "decoder_text": "ka"},
]
ARGUMENTS = [
    *({"max_length": length} for length in (None, 2, 9, 16, 0, -1, 2.5, "7")),
    {"strip_prompt": True},
    *({"stop_token_ids": ids} for ids in ([3, 9], None)),
]
SAMPLERS = [
    ("auto", {}),
    ("auto", {"beam_size": 2, "max_output_extra": 2}),
    ("greedy", {}),
    ("beam", {}),
]
# Over hundreds of tokens rounding decides between hypotheses: cut it short.
LONG = {"inputs": "ba ka do " * 200, "max_length": 16}
CALLS = [
    *([*sampler, LONG] for sampler in SAMPLERS),
    *([*sampler, {"inputs": each}] for sampler in SAMPLERS for each in INPUTS),
    *(
        [*sampler, {"inputs": BOTH} | arguments]
        for sampler, arguments in itertools.product(SAMPLERS[::2], ARGUMENTS)
    ),
]


@pytest.mark.slow
def test_every_backend_has_the_same_limits(model_path):
    pytest.importorskip("jax")
    calls = sorted(CALLS, key=str)
    done = subprocess.run(
        [sys.executable, "-m", answer_calls.__name__, str(model_path)],
        cwd=tiny.ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax"},
        input=json.dumps(calls),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    errors = 0
    found = answer_calls.answers(str(model_path), calls)
    for call, ours, others in zip(calls, found, json.loads(done.stdout)):
        assert ours == others, call
        errors += ours[:1] in (["ValueError"], ["UnknownCharacter"])
        assert "Error" not in ours[:1] or ours[:1] == ["ValueError"], ours
    assert 0 < errors < len(calls) - 10
