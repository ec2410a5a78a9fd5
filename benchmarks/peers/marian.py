"""MarianMTModel of Hugging Face transformers."""

import torch
import transformers

from benchmarks.peers.torch_step import PAD, TorchStep
from keras_transformer.special_ids import BEGIN_ID, END_ID


class _Marian(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.d_k != config.d_model // config.num_heads:
            raise ValueError("MarianMTModel has no head width of its own.")
        self._marian = transformers.MarianMTModel._from_config(
            transformers.MarianConfig(
                vocab_size=config.vocabulary_size,
                d_model=config.d_model,
                encoder_layers=config.num_layers,
                decoder_layers=config.num_layers,
                encoder_attention_heads=config.num_heads,
                decoder_attention_heads=config.num_heads,
                encoder_ffn_dim=config.d_ff,
                decoder_ffn_dim=config.d_ff,
                activation_function="relu",
                dropout=config.dropout,
                attention_dropout=0.0,
                activation_dropout=0.0,
                scale_embedding=True,
                max_position_embeddings=config.max_positions,
                init_std=config.d_model**-0.5,
                pad_token_id=PAD,
                eos_token_id=END_ID,
                bos_token_id=BEGIN_ID,
                decoder_start_token_id=BEGIN_ID,
                forced_eos_token_id=None,
                use_cache=False,
            ),
            attn_implementation="sdpa",
        )

    def forward(self, source, target):
        return self._marian(
            input_ids=source,
            attention_mask=source != PAD,
            decoder_input_ids=target,
            decoder_attention_mask=target != PAD,
        ).logits


def make(job):
    """Returns the system."""
    system = TorchStep(job, _Marian)
    system.note = (
        f"transformers {transformers.__version__} MarianMTModel, sdpa, "
        f"{system.note}"
    )
    return system
