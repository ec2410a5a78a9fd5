"""`generate` answers and refuses the same calls on TensorFlow and on JAX.

Run as a module, it reads calls and writes answers as JSON, on the backend that
KERAS_BACKEND names.
"""

import json
import os
import subprocess
import sys
import warnings

import pytest

from export.keras_hub_task import TransformerSeq2SeqLM, TranslationSearch
from tests import made_up_text
from tests.export import tiny

pytestmark = pytest.mark.filterwarnings("ignore:.*compile.. was not called")
MODULE = "tests.export.keras_hub_task.test_backends"
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
LONG = "ba ka do " * 200
# Arguments of `generate`, also wrong ones.
ARGUMENTS = [
    # Over hundreds of tokens rounding decides between hypotheses: cut it short.
    {"inputs": LONG, "max_length": 16},
    *(
        {"inputs": each}
        for each in (
            SENTENCES[:3],
            SENTENCES[0],
            [],
            BOTH | {"decoder_text": ["ba"]},
            BOTH | {"decoder_text": [3] * len(PAIRS)},
            {"encoder_text": "ba", "decoder_text": "\u6f22"},
        )
    ),
    *(
        {"inputs": BOTH, "max_length": length}
        for length in (None, 2, 9, 0, 2.5, "7")
    ),
    {"inputs": BOTH, "strip_prompt": True},
    {"inputs": BOTH, "stop_token_ids": [3, 9]},
    {"inputs": BOTH, "stop_token_ids": None},
]
# Name of a sampler, arguments of TranslationSearch or {}, and of `generate`.
CALLS = [
    *(["auto", {}, each] for each in ARGUMENTS),
    *(["greedy", {}, each] for each in ARGUMENTS),
    ["auto", {"beam_size": 2, "max_extra_tokens": 2}, {"inputs": BOTH}],
    ["beam", {}, {"inputs": BOTH}],
]


def answer_calls(path, calls):
    """Returns what `generate` returned, or an error's type and message."""
    task = TransformerSeq2SeqLM.from_preset(path)
    task.preprocessor.encoder_sequence_length = 12
    task.preprocessor.decoder_sequence_length = 10
    found, before = [], None
    for sampler, search, arguments in calls:
        if (sampler, search) != before:
            made = TranslationSearch(**search) if search else sampler
            task.compile(sampler=made)
            before = (sampler, search)
        try:
            found.append(task.generate(**arguments))
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


@pytest.mark.slow
def test_every_backend_has_the_same_limits(model_path):
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-m", MODULE, str(model_path)],
        cwd=tiny.ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax"},
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    errors = 0
    found = answer_calls(str(model_path), CALLS)
    for call, ours, others in zip(CALLS, found, json.loads(done.stdout)):
        assert ours == others, call
        errors += ours[:1] in (["ValueError"], ["UnknownCharacter"])
        assert "Error" not in ours[:1] or ours[:1] == ["ValueError"], ours
    assert 0 < errors < len(CALLS) - 10


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(answer_calls(sys.argv[1], json.load(sys.stdin)), sys.stdout)
