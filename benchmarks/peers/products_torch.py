"""Matrix products in PyTorch."""

import torch

NOTE = f"PyTorch {torch.__version__}, torch.matmul"


class Multiply:
    """Multiplies as a step does, there and back.

    Args:
        job: Job.
    """

    def __init__(self, job):
        if job.device == "gpu":
            torch.set_float32_matmul_precision("high")
        torch.set_num_threads(job.cores)
        self._device = "cuda" if job.device == "gpu" else "cpu"
        self._dtype = {"float32": torch.float32}.get(
            job.precision, torch.bfloat16
        )

    def array(self, values):
        """Returns a tensor in the job's precision."""
        return torch.from_numpy(values).to(self._device, self._dtype)

    def __call__(self, left, right, output):
        """Returns left @ right and both gradients, given the output's."""
        return left @ right, output @ right.mT, left.mT @ output

    def wait(self, last):
        """Returns once all products are made."""
        if self._device == "cuda":
            torch.cuda.synchronize()


def peak_gpu_bytes():
    """Returns the most memory that tensors took on the GPU."""
    return torch.cuda.max_memory_allocated()
