"""How many updates fit into --train_minutes."""

import dataclasses
import time
import typing

import keras

from keras_transformer.config import TransformerConfig

# Number of updates while it is not known how many there will be.
UNPLANNED = 10**9
# Of a configuration without a cooldown: its share of the time.
_DEFAULT_SHARE = 0.75


def without_end(
    config: TransformerConfig, has_cooldown: bool
) -> TransformerConfig:
    """Returns a configuration that ends when its time is over.

    The share of its cooldown stays; without one it is three quarters, or, if
    not `has_cooldown`, none, and the config stays as it is.
    """
    share = config.cooldown_steps / config.train_steps
    if not share and not has_cooldown:
        return config
    cooldown_steps = round(UNPLANNED * (share or _DEFAULT_SHARE))
    return dataclasses.replace(
        config, train_steps=UNPLANNED, cooldown_steps=cooldown_steps
    )


class TimeBudget(keras.callbacks.Callback):
    """Measures updates, and plans how many fit into the remaining time.

    Up to the cooldown, learning rates do not depend on the number of updates.
    So it is decided when the cooldown has to begin, from the speed up to then.

    Args:
        minutes: from now to the end.
        config: the time is divided as its `train_steps`, the maximum, are by
            its cooldown.

    Attributes:
        end_time: `time.monotonic()` at the end.
        plan_time: `time.monotonic()` at the decision.
    """

    def __init__(self, minutes: float, config: TransformerConfig):
        super().__init__()
        self._config = config
        share = config.cooldown_steps / config.train_steps
        self._begun = time.monotonic()
        self.end_time = self._begun + 60 * minutes
        self.plan_time = self.end_time - share * 60 * minutes
        self._num_steps, self._first_time = 0, self._begun

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Counts an update; the first one is compiled."""
        if not self._num_steps:
            self._first_time = time.monotonic()
        self._num_steps += 1

    def plan_end(self, step: int) -> int:
        """Returns the total number of updates, at least `step` + 1."""
        now = time.monotonic()
        # The next fit compiles, too.
        left = self.end_time - now - (self._first_time - self._begun)
        seconds = (now - self._first_time) / max(self._num_steps - 1, 1)
        count = max(int(left / max(seconds, 1e-6)), 1)
        return min(step + count, self._config.train_steps)

    def plan_config(self, step: int, last: int) -> TransformerConfig:
        """Returns the config of a training that ends at step `last`."""
        if last == self._config.train_steps:
            return self._config
        return dataclasses.replace(
            self._config, train_steps=last, cooldown_steps=last - step
        )
