"""One CPU; several are in test_replicas, in a process of their own."""

import pytest
import tensorflow as tf

from export.errors import InputError
from trainers.strategies import NAMES, make_strategy


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    devices = tf.config.list_logical_devices

    def cpus_only(kind):
        return [] if kind == "GPU" else devices(kind)

    monkeypatch.setattr(tf.config, "list_logical_devices", cpus_only)


@pytest.mark.parametrize("name", NAMES)
def test_one_cpu_is_one_replica(name):
    strategy = make_strategy(name)
    assert strategy.num_replicas_in_sync == 1
    assert all("CPU" in d.upper() for d in strategy.extended.worker_devices)


def test_auto_does_not_mirror_a_single_device():
    assert isinstance(make_strategy("auto"), tf.distribute.OneDeviceStrategy)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(InputError, match="'two'; there are: auto, one, mirr"):
        make_strategy("two")
