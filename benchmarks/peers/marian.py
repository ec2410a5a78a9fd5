"""MarianMTModel of Hugging Face transformers: training and generation."""

import numpy as np
import torch
import transformers

import keras_transformer as kt
from benchmarks.decoding_job import SentencePieces
from benchmarks.peers.torch_transformer import PAD, TorchStep, device
from keras_transformer.config import BEGIN_ID, END_ID, UNKNOWN_ID


def _new_model(config):
    return transformers.MarianMTModel._from_config(
        transformers.MarianConfig(
            vocab_size=config.vocabulary_size,
            d_model=config.d_model,
            encoder_layers=config.num_layers,
            decoder_layers=config.decoder_layers,
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


class _Logits(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self._marian = _new_model(config)

    def forward(self, source, target):
        return self._marian(
            input_ids=source,
            attention_mask=source != PAD,
            decoder_input_ids=target,
            decoder_attention_mask=target != PAD,
        ).logits


def make_step(job, compiled=False):
    """Returns the training peer."""
    name = f"transformers {transformers.__version__} MarianMTModel, sdpa"
    return TorchStep(job, _Logits, name, compiled)


class Translator:
    """`generate` with beam search and cache; it returns no scores."""

    def __init__(self, job):
        self._device = device(job)
        self._config = job.config
        self._pieces = SentencePieces(job.model)
        self._model = _with_weights(job).to(self._device)
        self.note = (
            f"transformers {transformers.__version__} MarianMTModel, sdpa, "
            f"PyTorch {torch.__version__}, {job.precision}, "
            "early_stopping=False, no torch.compile"
        )

    def translate(self, batch):
        ids = [torch.tensor(row) for row in self._pieces.ids(batch.texts)]
        source = torch.nn.utils.rnn.pad_sequence(
            ids, batch_first=True, padding_value=PAD
        )
        rows = self._generate(source.to(self._device)).tolist()
        texts = self._pieces.text(
            [token for token in row if token > END_ID] for row in rows
        )
        return [(text, None) for text in texts]

    @torch.inference_mode()
    def _generate(self, source):
        return self._model.generate(
            source,
            attention_mask=source != PAD,
            num_beams=self._config["beam_size"],
            do_sample=False,
            use_cache=True,
            length_penalty=self._config["alpha"],
            early_stopping=False,
            max_new_tokens=source.shape[1]
            - 1
            + self._config["max_extra_tokens"],
            suppress_tokens=[PAD, UNKNOWN_ID, BEGIN_ID],
        )


def _with_weights(job):
    config = kt.TransformerConfig(**job.config)
    model = _new_model(config)
    with np.load(job.prepared) as arrays:
        state = {name: torch.from_numpy(arrays[name]) for name in arrays}
    model.load_state_dict(state)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = config.layer_norm_epsilon
    # The model's own defaults would override arguments of each call.
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=PAD,
        bos_token_id=BEGIN_ID,
        eos_token_id=END_ID,
        decoder_start_token_id=BEGIN_ID,
    )
    model.config.use_cache = True
    dtype = {"bfloat16": torch.bfloat16}.get(job.precision, torch.float32)
    return model.to(dtype).eval()
