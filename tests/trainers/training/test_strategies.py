"""One CPU; several are in test_replicas, several machines in test_workers."""

import json
import types

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.training.strategies import (
    NAMES,
    is_chief,
    make_strategy,
    validate_tf_config,
)

ADDRESSES = ["host1:2222", "10.0.0.2:2223", "[::1]:2224"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    devices = tf.config.list_logical_devices

    def cpus_only(kind):
        return [] if kind == "GPU" else devices(kind)

    monkeypatch.setattr(tf.config, "list_logical_devices", cpus_only)


@pytest.mark.parametrize("name", ["auto", "one", "mirrored"])
def test_one_cpu_is_one_replica_that_writes(name):
    strategy = make_strategy(name)
    assert strategy.num_replicas_in_sync == 1
    assert all("CPU" in d.upper() for d in strategy.extended.worker_devices)
    assert is_chief(strategy)


def test_auto_does_not_mirror_a_single_device():
    assert isinstance(make_strategy("auto"), tf.distribute.OneDeviceStrategy)


def test_an_unknown_name_lists_what_there_is():
    assert NAMES == ("auto", "one", "mirrored", "multiworker")
    with pytest.raises(InputError, match="'two'; there are: auto, one, mirr"):
        make_strategy("two")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_first_worker_is_the_chief(number):
    resolver = types.SimpleNamespace(task_id=number, task_type="worker")
    strategy = types.SimpleNamespace(cluster_resolver=resolver)
    assert is_chief(strategy) is (number == 0)


def _config(index=0, workers=tuple(ADDRESSES), **changes):
    """A good TF_CONFIG as a dict."""
    return {
        "cluster": {"worker": list(workers)},
        "task": {"type": "worker", "index": index},
    } | changes


def _refused(text):
    with pytest.raises(InputError) as caught:
        validate_tf_config(text)
    message = str(caught.value)
    assert "\n" not in message
    assert "needs the environment variable TF_CONFIG" in message
    return message


@pytest.mark.parametrize("index", [0, 1, 2, "2"])
def test_a_config_that_names_this_worker(index):
    validate_tf_config(json.dumps(_config(index)))


def test_what_the_message_shows_is_itself_good():
    message = _refused("")
    start = message.index("{")
    example, _ = json.JSONDecoder().raw_decode(message[start:])
    validate_tf_config(json.dumps(example))


BAD = {
    "this worker is not in it": _config(3),
    "before the first": _config(-1),
    "no number": _config("first"),
    "half": _config(0.5),
    "infinite": _config(float("inf")),
    "none": _config(None),
    "a list": _config([0]),
    "nobody": _config(workers=[]),
    "no port": _config(workers=["host1", "host2:1"]),
    "a port that is none": _config(workers=["host1:http"]),
    "a number": _config(workers=[2222]),
    "one address": _config() | {"cluster": {"worker": "host1:2222"}},
    "another cluster": _config(cluster={"ps": ADDRESSES}),
    "more than workers": _config(
        cluster={"worker": ADDRESSES, "ps": ["host9:1"]}
    ),
    "another task": _config(task={"type": "ps", "index": 0}),
    "no index": _config(task={"type": "worker"}),
    "task is a list": _config(task=["worker", 0]),
    "cluster is a list": _config(cluster=ADDRESSES),
    "cluster only": {"cluster": {"worker": ADDRESSES}},
    "task only": {"task": {"type": "worker", "index": 0}},
}


@pytest.mark.parametrize("name", BAD)
def test_a_config_that_tensorflow_would_hang_or_crash_on(name):
    _refused(json.dumps(BAD[name]))


@pytest.mark.parametrize("text", ["", "{", "[" * 99_999, "a\nb", "{}", "null"])
def test_a_config_that_is_none(text):
    _refused(text)


WORDS = st.sampled_from(
    ["cluster", "worker", "task", "type", "index", "host:1", "chief"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=6,
)


@given(st.fixed_dictionaries({"cluster": JSON, "task": JSON}) | JSON)
def test_any_other_json_is_refused_and_nothing_else_happens(content):
    _refused(json.dumps(content))


@pytest.mark.parametrize("text", [None, json.dumps(BAD["no port"])])
def test_no_cluster_is_waited_for_that_cannot_come(monkeypatch, text):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="needs the environment variable"):
        make_strategy("multiworker")
