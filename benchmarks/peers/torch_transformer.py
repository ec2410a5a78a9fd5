"""torch.nn.Transformer with what it lacks: embeddings and logits."""

import math

import torch

from benchmarks.peers.torch_step import PAD, TorchStep


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
            num_decoder_layers=config.num_layers,
            dim_feedforward=config.d_ff,
            dropout=config.dropout,
            batch_first=True,
        )
        _without_inner_dropout(self._transformer)
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


def _without_inner_dropout(transformer):
    """The other systems drop neither attention weights nor inner units."""
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


def make(job):
    """Returns the system."""
    system = TorchStep(job, _Translator)
    system.note = f"nn.Transformer of {system.note}"
    return system
