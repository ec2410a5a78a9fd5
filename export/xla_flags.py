"""How XLA multiplies a few rows on a CPU."""

import os

import tensorflow as tf

_FLAG = "--xla_cpu_experimental_ynn_fusion_type"


def multiply_by_eigen():
    """Has XLA leave products to Eigen, and not to YNNPACK.

    Of 4 rows, a beam's, YNNPACK's take half as long again (docs/decode.md).
    XLA reads its flags once, when it first compiles; what somebody chose in
    XLA_FLAGS stays.
    """
    # A version that does not know the flag ends the process.
    if not tf.__version__.startswith("2.21."):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if _FLAG not in flags:
        chosen = f"{flags} {_FLAG}=LIBRARY_FUSION_TYPE_INVALID"
        os.environ["XLA_FLAGS"] = chosen.strip()
