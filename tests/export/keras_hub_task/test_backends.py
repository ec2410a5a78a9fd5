"""`generate` answers and refuses the same calls on TensorFlow and on JAX.

Run as a module, it writes the answers as JSON, on the backend that
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
SENTENCES = made_up_text.sentences()
# Sources, and what their translations begin with.
PAIRS = {
    **dict.fromkeys(SENTENCES[:4], ""),
    **{"": "", "  ": "ba", "ba ka do " * 9: "ba ka do " * 9},
    "\u6f22 ba </s>": "\ufb01  b\u00e0 ",
}
BOTH = {"encoder_text": [*PAIRS], "decoder_text": [*PAIRS.values()]}
# Arguments of `generate`, also wrong ones.
ARGUMENTS = [
    # Over hundreds of tokens rounding decides between hypotheses: cut it short.
    {"inputs": "ba ka do " * 200, "max_length": 16},
    {"inputs": SENTENCES[:3]},
    {"inputs": SENTENCES[0]},
    {"inputs": []},
    {"inputs": BOTH | {"decoder_text": ["ba"]}},
    {"inputs": BOTH | {"decoder_text": [3] * len(PAIRS)}},
    {"inputs": {"encoder_text": "ba", "decoder_text": "\u6f22"}},
    *({"inputs": BOTH, "max_length": n} for n in (None, 2, 9, 0, 2.5, "7")),
    {"inputs": BOTH, "strip_prompt": True},
    *({"inputs": BOTH, "stop_token_ids": ids} for ids in ([3, 9], None)),
]
SEARCH = {"beam_size": 2, "max_extra_tokens": 2}
# Samplers, and arguments of `generate`.
CALLS = [
    *((sampler, each) for sampler in ("auto", "greedy") for each in ARGUMENTS),
    *((sampler, {"inputs": BOTH}) for sampler in (SEARCH, "beam")),
]


def answer_calls(path):
    """Returns what `generate` returned, or the message of a ValueError."""
    task = TransformerSeq2SeqLM.from_preset(path)
    task.preprocessor.encoder_sequence_length = 12
    task.preprocessor.decoder_sequence_length = 10
    answers, before = [], None
    for sampler, arguments in CALLS:
        if sampler != before:
            is_search = sampler is SEARCH
            task.compile(
                sampler=TranslationSearch(**SEARCH) if is_search else sampler
            )
            before = sampler
        try:
            answers.append(task.generate(**arguments))
        except ValueError as error:
            answers.append({"error": str(error)})
    return answers


@pytest.mark.slow
def test_every_backend_has_the_same_limits(model_path):
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, str(model_path)],
        cwd=tiny.ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    errors = 0
    answers = zip(answer_calls(str(model_path)), json.loads(done.stdout))
    for (ours, others), call in zip(answers, CALLS, strict=True):
        assert ours == others, call
        errors += isinstance(ours, dict)
    assert 0 < errors < len(CALLS) - 10


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(answer_calls(sys.argv[1]), sys.stdout)
