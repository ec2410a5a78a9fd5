"""The training step that PyTorch's models share."""

import torch

PAD = 0


class TorchStep:
    """Forward, smoothed loss, backward, Adam; no torch.compile.

    Args:
        job: Job.
        make_model: function of the configuration; returns a torch module
            that maps source and target ids to logits.
    """

    def __init__(self, job, make_model):
        if job.device == "gpu":
            # What TensorFlow and JAX do by themselves: TF32 products.
            torch.set_float32_matmul_precision("high")
        torch.set_num_threads(job.cores)
        torch.manual_seed(1)
        config = job.config
        self._device = "cuda" if job.device == "gpu" else "cpu"
        self._smoothing = config.label_smoothing
        self._bfloat16 = job.precision == "mixed_bfloat16"
        self._model = make_model(config).to(self._device).train()
        weights = [
            each for each in self._model.parameters() if each.requires_grad
        ]
        self._optimizer = torch.optim.Adam(
            weights,
            lr=1.0,
            betas=(config.adam_beta_1, config.adam_beta_2),
            eps=config.adam_epsilon,
            fused=True,
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, paper_rate(config.d_model, config.warmup_steps)
        )
        self._batches = [
            tuple(
                torch.from_numpy(ids).long().to(self._device)
                for ids in (batch.source, batch.target, batch.labels)
            )
            for batch in job.batches
        ]
        self.parameters = sum(each.numel() for each in weights)
        self.note = f"PyTorch {torch.__version__}, no torch.compile"

    def run(self, shape):
        """Makes one update with a batch, waits for it, returns the loss."""
        source, target, labels = self._batches[shape]
        with torch.autocast(
            self._device, torch.bfloat16, enabled=self._bfloat16
        ):
            logits = self._model(source, target)
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1),
                labels.flatten(),
                ignore_index=PAD,
                label_smoothing=self._smoothing,
            )
        loss.backward()
        self._optimizer.step()
        self._schedule.step()
        self._optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        if self._device == "cuda":
            torch.cuda.synchronize()
        return value

    def peak_gpu_bytes(self):
        """Returns the most memory that tensors took on the GPU."""
        return torch.cuda.max_memory_allocated()


def paper_rate(d_model, warmup_steps):
    """Returns the paper's schedule as a function of updates made before."""

    def rate(updates):
        step = updates + 1
        return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)

    return rate
