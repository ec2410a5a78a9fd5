"""Training step in PyTorch, and torch.nn.Transformer with embeddings."""

import math

import torch

PAD = 0


def device(job):
    """Configures PyTorch for a job; returns the device name."""
    if job.device == "gpu":
        # TF32 products, the default of TensorFlow and JAX.
        torch.set_float32_matmul_precision("high")
    torch.set_num_threads(job.cores)
    return "cuda" if job.device == "gpu" else "cpu"


class _Loss(torch.nn.Module):
    """Label-smoothed loss of a module that maps ids to logits."""

    def __init__(self, model, smoothing):
        super().__init__()
        self._model = model
        self._smoothing = smoothing

    def forward(self, source, target, labels):
        return torch.nn.functional.cross_entropy(
            self._model(source, target).flatten(0, 1),
            labels.flatten(),
            ignore_index=PAD,
            label_smoothing=self._smoothing,
        )


class TorchStep:
    """Training step: forward, smoothed loss, backward, Adam.

    `make_model` is a function of the configuration that returns a torch module
    from source and target ids to logits.
    """

    framework = "torch"

    def __init__(self, job, make_model, name, compiled):
        self._device = device(job)
        torch.manual_seed(1)
        config = job.config
        self._bfloat16 = job.precision == "mixed_bfloat16"
        loss = _Loss(make_model(config), config.label_smoothing)
        loss = loss.to(self._device).train()
        self._loss = torch.compile(loss) if compiled else loss
        weights = [each for each in loss.parameters() if each.requires_grad]
        self._optimizer = torch.optim.Adam(
            weights,
            lr=1.0,
            betas=(config.adam_beta_1, config.adam_beta_2),
            eps=config.adam_epsilon,
            fused=True,
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer,
            lambda updates: (
                config.d_model**-0.5
                * min(
                    (updates + 1) ** -0.5,
                    (updates + 1) * config.warmup_steps**-1.5,
                )
            ),
        )
        self._batches = [
            tuple(
                torch.from_numpy(ids).long().to(self._device)
                for ids in (batch.source, batch.target, batch.labels)
            )
            for batch in job.batches
        ]
        self.parameters = sum(each.numel() for each in weights)
        how = "torch.compile" if compiled else "no torch.compile"
        self.note = f"{name}, PyTorch {torch.__version__}, {how}"

    def run(self, number):
        with torch.autocast(
            self._device, torch.bfloat16, enabled=self._bfloat16
        ):
            loss = self._loss(*self._batches[number])
        loss.backward()
        self._optimizer.step()
        self._schedule.step()
        self._optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        if self._device == "cuda":
            torch.cuda.synchronize()
        return value


class _Translator(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self._embedding = torch.nn.Embedding(
            config.vocabulary_size, config.d_model, padding_idx=PAD
        )
        torch.nn.init.normal_(self._embedding.weight, std=config.d_model**-0.5)
        self._scale = math.sqrt(config.d_model)
        self._dropout = torch.nn.Dropout(config.dropout)
        self._transformer = torch.nn.Transformer(
            d_model=config.d_model,
            nhead=config.num_heads,
            num_encoder_layers=config.num_layers,
            num_decoder_layers=config.decoder_layers,
            dim_feedforward=config.d_ff,
            dropout=config.dropout,
            batch_first=True,
        )
        _disable_inner_dropout(self._transformer)
        self.register_buffer(
            "_positions", _sinusoids(config.max_positions, config.d_model)
        )

    def _embed(self, ids):
        embedded = self._embedding(ids) * self._scale
        return self._dropout(embedded + self._positions[: ids.shape[1]])

    def forward(self, source, target):
        length = target.shape[1]
        states = self._transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=torch.ones(
                length, length, dtype=torch.bool, device=target.device
            ).triu(1),
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return torch.nn.functional.linear(states, self._embedding.weight)


def _disable_inner_dropout(transformer):
    """Matches the other systems, which lack these dropouts."""
    for module in transformer.modules():
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
        if isinstance(
            module,
            torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer,
        ):
            module.dropout.p = 0.0


def _sinusoids(positions, width):
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(positions)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def make_step(job, compiled=False):
    """Returns the training peer."""
    return TorchStep(job, _Translator, "nn.Transformer", compiled)
