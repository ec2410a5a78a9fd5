"""Every system that can train, by its name on the command line."""

import dataclasses
import functools
import typing

from benchmarks.harness.systems import System
from benchmarks.training_step.work import (
    model_work,
    packed_work,
    products_work,
    real_logits_work,
    square_work,
)


@dataclasses.dataclass(frozen=True)
class StepSystem(System):
    """A System of StepJobs; its peer has `parameters` and `run(shape)`.

    Attributes:
        work: function of a StepJob and a StepBatch; returns the Products
            whose FLOPs are counted.
    """

    work: typing.Callable = model_work


_torch = functools.partial(StepSystem, keras_backend="torch")
_ON_TORCH = {
    "transformers": _torch("marian:make_step", "transformers"),
    "transformers-compiled": _torch(
        "marian:make_compiled_step", "transformers"
    ),
    "torch": _torch("torch_transformer:make"),
    "torch-compiled": _torch("torch_transformer:make_compiled"),
    "torch-products": _torch("products:on_torch", work=products_work),
}
SYSTEMS = {
    "tensorflow": {
        "ours": StepSystem("keras_fit:padded", work=real_logits_work),
        "ours-packed": StepSystem("keras_fit:packed", work=packed_work),
        "ours-jit": StepSystem("keras_fit:compiled"),
        "keras-hub": StepSystem("keras_hub_layers:make", "keras_hub"),
        "products": StepSystem("products:on_tensorflow", work=products_work),
        "square": StepSystem("products:square_on_tensorflow", work=square_work),
        **_ON_TORCH,
    },
    "jax": {
        "ours": StepSystem("ours_jax:padded_step"),
        "ours-packed": StepSystem("ours_jax:packed_step", work=packed_work),
        "keras-hub": StepSystem("keras_hub_layers:make", "keras_hub"),
        "products": StepSystem("products:on_jax", work=products_work),
        "square": StepSystem("products:square_on_jax", work=square_work),
        **_ON_TORCH,
    },
}
