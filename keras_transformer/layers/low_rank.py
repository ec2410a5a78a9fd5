"""Low-rank adaptation, LoRA: Hu et al., 2021, arXiv 2106.09685, section 4.

Letters: n inputs and m outputs of a matrix, r the rank.
"""

import itertools

import keras
from keras import ops

from keras_transformer.kernels.projections import linear


class LowRankAdaptation:
    """A mixin for layers with matrices that can be adapted.

    After `enable_lora` a matrix W [n, m] acts as W + alpha / r * A B, where
    A [n, r] and B [r, m] are all that is trained. B begins with zeros, so that
    nothing changes at first. Where keys and values come from one product, they
    share A. What is saved has the products in its matrices, and fits the layer
    that was never adapted. `keras.layers.Dense` has the same names and habits,
    so that KerasHub's `enable_lora` finds what it expects.

    A function that was compiled before `enable_lora` does not know of it.

    Attributes:
        lora_enabled: whether it is adapted.
        lora_kernel_a: float32 [sum of n, r], the A of all matrices, one below
            the other.
        lora_kernel_b: float32 [r, sum of m], the B of all matrices, side by
            side.
    """

    lora_enabled = False

    def adaptable(self):
        """Returns the names of the matrices: `{name}_kernel` are theirs."""
        raise NotImplementedError

    def enable_lora(self, rank, lora_alpha=None):
        """Adapts the layer; its own weights are no longer trained.

        Args:
            rank: r, at least 1.
            lora_alpha: alpha; None for r.

        Raises:
            ValueError: the rank is none, or the layer is not built, or is
                adapted already.
        """
        self.check_lora(rank)
        for weight in self.weights:
            weight.trainable = False
        kernels = self._kernels().values()
        # As Keras' own layers do: a layer that is built takes no weights.
        self._tracker.unlock()
        self.lora_kernel_a = self.add_weight(
            name="lora_kernel_a",
            shape=(sum(each.shape[0] for each in kernels), rank),
            initializer=_he_uniform([each.shape[0] for each in kernels]),
            dtype="float32",
        )
        self.lora_kernel_b = self.add_weight(
            name="lora_kernel_b",
            shape=(rank, sum(each.shape[1] for each in kernels)),
            initializer="zeros",
            dtype="float32",
        )
        self._tracker.lock()
        self._lora_scale = (lora_alpha or rank) / rank
        self.lora_enabled = True

    def check_lora(self, rank):
        """Raises what `enable_lora` does."""
        if not isinstance(rank, int) or rank < 1:
            raise ValueError(
                f"The rank of LoRA is {rank!r}; it must be a whole number "
                "from 1."
            )
        if not self.built or self.lora_enabled:
            state = "adapted already" if self.built else "not built yet"
            raise ValueError(
                f"{self.name} is {state}; LoRA is for a layer that is built, "
                "and once."
            )

    def adapted(self, name, inputs, bias):
        """Returns inputs @ W + bias of a matrix, adapted or not.

        Args:
            name: one of `adaptable()`.
            inputs: float [..., n].
            bias: float [m], or None.

        Returns:
            float [..., m].
        """
        outputs = linear(inputs, self._kernels()[name], bias)
        if not self.lora_enabled:
            return outputs
        down, up = self._factors()[name]
        change = linear(linear(inputs, down), up)
        return outputs + ops.cast(self._lora_scale, outputs.dtype) * change

    def save_own_variables(self, store):
        """Saves the weights as they act: A B is in its matrix."""
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        merged = {
            id(kernel): self._merged(name)
            for name, kernel in self._kernels().items()
        }
        for number, weight in enumerate(self._own_weights()):
            store[f"{number}"] = merged.get(id(weight), weight)

    def load_own_variables(self, store):
        """Loads what was saved; what A and B were is forgotten."""
        if not self.lora_enabled:
            super().load_own_variables(store)
            return
        for number, weight in enumerate(self._own_weights()):
            weight.assign(store[f"{number}"])
        self.lora_kernel_b.assign(ops.zeros(self.lora_kernel_b.shape))

    def _own_weights(self):
        """Returns the weights that were there before A and B."""
        *own, _, _ = self._trainable_variables + self._non_trainable_variables
        return own

    def _merged(self, name):
        kernel = self._kernels()[name]
        change = self._lora_scale * ops.matmul(*self._factors()[name])
        return kernel + ops.cast(change, kernel.dtype)

    def _kernels(self):
        return {
            name: getattr(self, f"{name}_kernel") for name in self.adaptable()
        }

    def _factors(self):
        """Returns A and B of each matrix by its name."""
        kernels = self._kernels()
        downs = _parts(
            self.lora_kernel_a, [k.shape[0] for k in kernels.values()], 0
        )
        ups = _parts(
            self.lora_kernel_b, [k.shape[1] for k in kernels.values()], 1
        )
        return dict(zip(kernels, zip(downs, ups)))


def _parts(matrix, widths, axis):
    *ends, _ = itertools.accumulate(widths)
    return ops.split(matrix, ends, axis=axis) if ends else [matrix]


def _he_uniform(heights):
    """Returns an initializer for an A of each matrix, one below the other."""

    def initialize(shape, dtype=None):
        blocks = [
            keras.initializers.HeUniform()((height, shape[1]), dtype=dtype)
            for height in heights
        ]
        return ops.concatenate(blocks, axis=0)

    return initialize
