"""MarianMTModel of Hugging Face transformers: its updates, its search."""

import numpy as np
import torch
import transformers

import keras_transformer as kt
from benchmarks.decoding.job import SentencePieces
from benchmarks.peers.torch_transformer import PAD, TorchStep, device
from keras_transformer.config import BEGIN_ID, END_ID, UNKNOWN_ID


def _new_model(config):
    if config.d_k != config.d_model // config.num_heads:
        raise ValueError("MarianMTModel has no head width of its own.")
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


def make_step(job):
    """Returns the peer that trains."""
    return _named(TorchStep(job, _Logits))


def make_compiled_step(job):
    """Returns the same, its forward and backward pass compiled."""
    return _named(TorchStep(job, _Logits, torch.compile))


def _named(peer):
    peer.note = (
        f"transformers {transformers.__version__} MarianMTModel, sdpa, "
        f"{peer.note}"
    )
    return peer


class Translator:
    """`generate` with a beam and a cache.

    Args:
        job: DecodeJob.
    """

    def __init__(self, job):
        self._device = device(job)
        self._config = job.config
        self._pieces = SentencePieces(job.model)
        self._model = _with_weights(job).to(self._device)
        self.note = (
            f"transformers {transformers.__version__} MarianMTModel, sdpa, "
            f"PyTorch {torch.__version__}, {job.precision}, "
            "early_stopping=False: a sentence ends when its best live "
            "hypothesis, at its present length, is below its worst finished "
            "one; one maximum length for a batch; no torch.compile"
        )

    def translate(self, batch):
        """Returns text of each sentence, and no score."""
        source = self._source(batch)
        return [(text, None) for text in self._texts(self._generate(source))]

    def translate_with_scores(self, batch):
        """Returns text and score, from a pass over the whole translation."""
        source = self._source(batch)
        outputs = self._generate(source)
        scores = self._scores(source, outputs)
        return list(zip(self._texts(outputs), scores))

    def _source(self, batch):
        ids = [torch.tensor(row) for row in self._pieces.ids(batch.texts)]
        return torch.nn.utils.rnn.pad_sequence(
            ids, batch_first=True, padding_value=PAD
        ).to(self._device)

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
            + self._config["max_output_extra"],
            suppress_tokens=[PAD, UNKNOWN_ID, BEGIN_ID],
        )

    def _texts(self, outputs):
        rows = outputs.tolist()
        return self._pieces.text(
            [number for number in row if number > END_ID] for row in rows
        )

    @torch.inference_mode()
    def _scores(self, source, outputs):
        labels = outputs[:, 1:]
        logits = self._model(
            input_ids=source,
            attention_mask=source != PAD,
            decoder_input_ids=outputs[:, :-1],
        ).logits
        of_labels = torch.log_softmax(logits.float(), -1).gather(
            2, labels[..., None]
        )[..., 0]
        # `generate` pads with end ids where padding is id 0.
        is_end = (labels == END_ID).int()
        real = is_end.cumsum(1) - is_end == 0
        lengths = real.sum(1) ** self._config["alpha"]
        return ((of_labels * real).sum(1) / lengths).tolist()


def _with_weights(job):
    config = kt.TransformerConfig(**job.config)
    model = _new_model(config)
    with np.load(job.prepared) as arrays:
        state = {name: torch.from_numpy(arrays[name]) for name in arrays}
    model.load_state_dict(state)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = config.layer_norm_epsilon
    # Given with each call; what the model brings along would go before it.
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=PAD,
        bos_token_id=BEGIN_ID,
        eos_token_id=END_ID,
        decoder_start_token_id=BEGIN_ID,
    )
    model.config.use_cache = True
    dtype = {"bfloat16": torch.bfloat16}.get(job.precision, torch.float32)
    return model.to(dtype).eval()
