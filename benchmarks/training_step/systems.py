"""Every system that can be timed, by its name on the command line."""

import dataclasses
import typing

from benchmarks.harness.matrix_products import (
    model_work,
    products_work,
    real_logits_work,
    square_work,
)
from benchmarks.harness.systems import Peer, choose_among, of_backend


@dataclasses.dataclass(frozen=True)
class System(Peer):
    """Where a system is made, what it needs and what it does.

    Attributes:
        module: that holds it, under benchmarks.peers.
        maker: there, a function of a Job; returns an object with
            `parameters`, `note`, `run(shape)` and `peak_gpu_bytes()`.
        packages: that must be installed.
        keras_backend: it runs on, whether or not it uses Keras.
        work: function of a Job and a StepBatch; returns the Products whose
            FLOPs are counted.
    """

    module: str
    maker: str
    packages: tuple[str, ...]
    keras_backend: str
    work: typing.Callable = model_work

    @property
    def trains(self):
        """Whether it is a model, and no mere matrix product."""
        return self.module != "products"


def _packed_work(job, batch):
    # It needs TensorFlow, which runs on other backends do without.
    from benchmarks.training_step.work import packed_work

    return packed_work(job, batch)


def _of_keras(backend, **more):
    return {
        **more,
        "keras-hub": System(
            "keras_hub_layers", "make", ("keras_hub", backend), backend
        ),
        "products": System(
            "products", backend, (backend,), backend, products_work
        ),
        "square": System(
            "products", f"{backend}_square", (backend,), backend, square_work
        ),
    }


_PEERS_ON_TORCH = {
    "transformers": System(
        "marian", "make", ("torch", "transformers"), "torch"
    ),
    "torch": System("torch_transformer", "make", ("torch",), "torch"),
    "torch-products": System(
        "products", "torch", ("torch",), "torch", products_work
    ),
}
_ON_BACKEND = {
    "tensorflow": _of_keras(
        "tensorflow",
        **{
            "ours": System(
                *("ours_fit", "default", ("tensorflow",), "tensorflow"),
                real_logits_work,
            ),
            "ours-packed": System(
                *("ours_fit", "packed", ("tensorflow",), "tensorflow"),
                _packed_work,
            ),
            "ours-jit": System(
                "ours_fit", "compiled", ("tensorflow",), "tensorflow"
            ),
        },
    ),
    "jax": _of_keras(
        "jax", ours=System("ours_jax", "OursStateless", ("jax",), "jax")
    ),
}


def systems_on(backend):
    """Returns a dict of name to System.

    Args:
        backend: of Keras; "tensorflow" or "jax".

    Raises:
        InputError: nothing is measured on such a backend.
    """
    return {**of_backend(_ON_BACKEND, backend), **_PEERS_ON_TORCH}


def choose(backend, names):
    """Returns the systems to time, in the order of the names.

    Args:
        backend: of Keras.
        names: of systems; none for all whose packages are installed.

    Returns:
        Dict of name to System.

    Raises:
        InputError: an unknown name, or a package is missing.
    """
    return choose_among(systems_on(backend), names, backend)
