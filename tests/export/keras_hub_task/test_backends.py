"""`generate` answers and refuses the same calls on TensorFlow and on JAX."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import made_up_text
from tests.export import tiny
from tests.export.keras_hub_task import answer_calls

pytestmark = pytest.mark.filterwarnings("ignore:.*compile.. was not called")
SENTENCES = made_up_text.sentences()
TEXT = st.one_of(
    st.sampled_from([*SENTENCES[:20], "", "  ", "ba", "\u6f22 ba </s>"]),
    st.sampled_from(["ba ka do " * 9, "ba ka do " * 200]),
)
PROMPT = st.sampled_from(
    [
        "",
        "",
        "ba",
        "ba ka",
        "\ufb01  b\u00e0 ",
        "ba ka do " * 9,
        "\u6f22",
        "<s>",
    ]
)
LENGTH = st.sampled_from([None, None, None, 2, 3, 9, 16, 0, 1, -1, 2.5, "7"])
SAMPLER = st.sampled_from(
    [("auto", {}), ("auto", {"beam_size": 2, "max_output_extra": 2})] * 2
    + [("greedy", {}), ("beam", {})]
)


@st.composite
def calls(draw):
    pairs = draw(st.lists(st.tuples(TEXT, PROMPT), max_size=3))
    texts, prompts = map(list, zip(*pairs)) if pairs else ([], [])
    inputs = {"encoder_text": texts, "decoder_text": prompts}
    form = draw(st.sampled_from(["both", "both", "texts", "one", "bad"]))
    if form == "texts":
        inputs = texts
    if form == "one" and texts:
        inputs = dict(zip(inputs, pairs[0]))
    if form == "bad":
        inputs["decoder_text"] = [*prompts, 3]
    arguments = {
        "inputs": inputs,
        "max_length": draw(LENGTH),
        "strip_prompt": draw(st.booleans()),
    }
    stop = draw(st.sampled_from(["auto"] * 5 + [[3, 9], 3, None, []]))
    return [*draw(SAMPLER), arguments | {"stop_token_ids": stop}]


def made_up_calls(count):
    """The same in every run; those of a sampler stand together."""
    found = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(calls())
    def collect(call):
        found.append(call)

    collect()
    return sorted(found, key=lambda call: (call[0], str(call[1])))


@pytest.mark.slow
def test_every_backend_has_the_same_limits(model_path):
    pytest.importorskip("jax")
    asked = made_up_calls(40)
    done = subprocess.run(
        [sys.executable, "-m", answer_calls.__name__, str(model_path)],
        cwd=tiny.ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax"},
        input=json.dumps(asked),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = answer_calls.answers(str(model_path), asked)
    errors = 0
    for call, ours, others in zip(asked, found, json.loads(done.stdout)):
        assert ours == others, call
        errors += ours[:1] in (["ValueError"], ["UnknownCharacter"])
        assert "Error" not in ours[:1] or ours[:1] == ["ValueError"], ours
    assert 0 < errors < len(asked) - 10
