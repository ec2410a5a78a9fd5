"""One CPU; several are in test_replicas, several machines in test_workers."""

import json
import types

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.training.strategies import (
    is_chief,
    make_strategy,
    validate_tf_config,
)

ADDRESSES = ["host1:2222", "10.0.0.2:2223", "[::1]:2224"]


@pytest.mark.parametrize("name", ["auto", "one", "mirrored"])
def test_one_cpu_is_one_replica_that_writes(monkeypatch, name):
    devices = tf.config.list_logical_devices
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: [] if kind == "GPU" else devices(kind),
    )
    strategy = make_strategy(name)
    assert strategy.num_replicas_in_sync == 1
    assert all("CPU" in d.upper() for d in strategy.extended.worker_devices)
    assert is_chief(strategy)
    mirrors = isinstance(strategy, tf.distribute.MirroredStrategy)
    assert mirrors is (name == "mirrored")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_first_worker_is_the_chief(number):
    resolver = types.SimpleNamespace(task_id=number, task_type="worker")
    strategy = types.SimpleNamespace(cluster_resolver=resolver)
    assert is_chief(strategy) is (number == 0)


def _config(index=0, workers=tuple(ADDRESSES), **changes):
    """A valid TF_CONFIG as a dict."""
    return {
        "cluster": {"worker": list(workers)},
        "task": {"type": "worker", "index": index},
    } | changes


def _refusal(text):
    with pytest.raises(InputError, match="TF_CONFIG") as caught:
        validate_tf_config(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("index", [0, 1, 2, "2"])
def test_a_config_with_this_worker(index):
    validate_tf_config(json.dumps(_config(index)))


def test_the_example_in_the_message_is_valid():
    message = _refusal("")
    start = message.index("{")
    example, _ = json.JSONDecoder().raw_decode(message[start:])
    validate_tf_config(json.dumps(example))


INVALID = {
    "this worker is missing": _config(3),
    "negative": _config(-1),
    "no number": _config("first"),
    "half": _config(0.5),
    "infinite": _config(float("inf")),
    "none": _config(None),
    "a list": _config([0]),
    "nobody": _config(workers=[]),
    "no port": _config(workers=["host1", "host2:1"]),
    "not a port": _config(workers=["host1:http"]),
    "a number": _config(workers=[2222]),
    "one address": _config() | {"cluster": {"worker": "host1:2222"}},
    "another cluster": _config(cluster={"ps": ADDRESSES}),
    "not only workers": _config(
        cluster={"worker": ADDRESSES, "ps": ["host9:1"]}
    ),
    "another task": _config(task={"type": "ps", "index": 0}),
    "no index": _config(task={"type": "worker"}),
    "task is a list": _config(task=["worker", 0]),
    "cluster is a list": _config(cluster=ADDRESSES),
    "cluster only": {"cluster": {"worker": ADDRESSES}},
    "task only": {"task": {"type": "worker", "index": 0}},
}


@pytest.mark.parametrize("name", INVALID)
def test_a_config_that_tensorflow_would_hang_or_crash_on(name):
    _refusal(json.dumps(INVALID[name]))


@pytest.mark.parametrize("text", ["", "{", "[" * 99_999, "a\nb", "{}", "null"])
def test_text_that_is_no_config(monkeypatch, text):
    _refusal(text)
    # No cluster is waited for.
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="TF_CONFIG"):
        make_strategy("multiworker")


WORDS = st.sampled_from(
    ["cluster", "worker", "task", "type", "index", "host:1", "chief"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=6,
)


@given(st.fixed_dictionaries({"cluster": JSON, "task": JSON}) | JSON)
def test_any_other_json_is_refused(content):
    _refusal(json.dumps(content))
