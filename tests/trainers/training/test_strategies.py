"""One CPU; several are in test_replicas, several machines in test_workers."""

import ast
import inspect
import json
import pathlib
import types

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.training import strategies
from trainers.training.strategies import (
    is_chief,
    make_strategy,
    validate_tf_config,
)
from trainers.training.strategy_base import Strategies


def _functions(name):
    """The parameters of a module's functions, read without its imports."""
    path = pathlib.Path(strategies.__file__).with_name(name)
    return {
        node.name: [each.arg for each in node.args.args]
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def test_both_backends_have_the_declared_functions():
    declared = {
        name: [*inspect.signature(function).parameters][1:]
        for name, function in vars(Strategies).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }
    assert len(declared) >= 8
    for module in ("strategies.py", "jax_strategies.py"):
        assert declared.items() <= _functions(module).items(), module


ADDRESSES = ["host1:2222", "10.0.0.2:2223", "[::1]:2224"]


@pytest.mark.parametrize("name", ["auto", "one", "mirrored"])
def test_one_cpu_is_one_replica_that_writes(monkeypatch, name):
    cpus = tf.config.list_logical_devices("CPU")
    monkeypatch.setattr(
        tf.config, "list_logical_devices", {"CPU": cpus, "GPU": []}.get
    )
    strategy = make_strategy(name)
    assert strategy.num_replicas_in_sync == 1
    assert all("CPU" in d.upper() for d in strategy.extended.worker_devices)
    assert is_chief(strategy)
    mirrors = isinstance(strategy, tf.distribute.MirroredStrategy)
    assert mirrors is (name == "mirrored")


def _config(index=0, workers=tuple(ADDRESSES), **changes):
    """A valid TF_CONFIG as a dict."""
    return {
        "cluster": {"worker": list(workers)},
        "task": {"type": "worker", "index": index},
    } | changes


@pytest.mark.parametrize("index", [0, 2, "2"])
def test_a_config_with_this_worker(index):
    validate_tf_config(json.dumps(_config(index)))
    resolver = types.SimpleNamespace(task_id=int(index), task_type="worker")
    strategy = types.SimpleNamespace(cluster_resolver=resolver)
    assert is_chief(strategy) is (index == 0)


INVALID = [
    _config(3),
    _config("first"),
    _config(0.5),
    _config(workers=[]),
    _config(workers=["host1", "host2:1"]),
    _config(cluster={"worker": ADDRESSES, "ps": ["host9:1"]}),
    _config(task={"type": "ps", "index": 0}),
    {"cluster": {"worker": ADDRESSES}},
]
WORDS = st.sampled_from(
    ["cluster", "worker", "task", "type", "index", "host:1", "chief"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=6,
)


def _assert_refused(text):
    with pytest.raises(InputError, match="TF_CONFIG") as caught:
        validate_tf_config(text)
    assert "\n" not in str(caught.value)


@given(st.fixed_dictionaries({"cluster": JSON, "task": JSON}) | JSON)
def test_what_tensorflow_would_hang_or_crash_on_is_refused(content):
    _assert_refused(json.dumps(content))


def test_invalid_configs_are_refused_before_a_cluster_is_waited_for(
    monkeypatch,
):
    texts = ["", "{", "[" * 99_999, "null", *map(json.dumps, INVALID)]
    for text in texts:
        _assert_refused(text)
    monkeypatch.setenv("TF_CONFIG", texts[-1])
    with pytest.raises(InputError, match="TF_CONFIG"):
        make_strategy("multiworker")
