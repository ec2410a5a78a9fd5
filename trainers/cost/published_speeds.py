"""Published times of updates, to validate the estimates.

Times of this trainer on CPUs are in docs/measured/scaling.md.
"""

from tabulate import tabulate

import keras_transformer as kt
from trainers.cost.cost_estimate import (
    BatchShape,
    total_seconds,
    update_seconds,
)
from trainers.cost.devices import DEVICES

# Approximate mean length of WMT's sentences in tokens; only the products of
# attention scores depend on it.
_LENGTH = 30

_PAPER = "Vaswani et al. 2017, section 5.2"
_NVIDIA = "NVIDIA DeepLearningExamples, PyTorch Transformer, README of 2022"
# By GPU, precision and tokens per GPU: tokens/s by number of GPUs.
_NVIDIA_RATES = {
    ("V100", "float32", 2560): {1: 8742, 4: 30_204, 8: 59_316},
    ("V100", "float16", 5120): {1: 32_942, 4: 109_726, 8: 214_656},
    ("V100-32GB", "float32", 5120): {1: 9827, 8: 68_929, 16: 136_253},
    ("V100-32GB", "float16", 10_240): {1: 39_911, 8: 267_815, 16: 517_227},
    ("A100-40GB", "float32", 10_240): {1: 51_057, 4: 179_245, 8: 347_936},
    ("A100-40GB", "float16", 10_240): {1: 82_059, 4: 286_081, 8: 551_599},
}
# By source: preset, vocabulary, GPUs, their name, precision, target tokens per
# GPU (with equally many source tokens, some may be padding), micro-batches,
# seconds.
_UPDATES = {
    _PAPER: [
        ("base", 37_000, 8, "P100", "float32", 3125, 1, 0.4),
        ("big", 37_000, 8, "P100", "float32", 3125, 1, 1.0),
    ],
    _NVIDIA: [
        ("big", 33_708, count, *batch, 1, count * batch[-1] / rate)
        for batch, rates in _NVIDIA_RATES.items()
        for count, rate in rates.items()
    ],
    # "At least" this many words a second; "3500 or 4000" tokens per GPU.
    "M. Ott in fairseq#940, at least": [
        ("base", 30_000, 4, "V100", "float32", 3500, 1, 4 * 3500 / 73_000),
        ("base", 30_000, 4, "V100", "float16", 3500, 1, 4 * 3500 / 160_000),
    ],
    "fairseq timed in NVIDIA/OpenSeq2Seq#250": [
        ("big", 32_768, 1, "V100", "float16", 3584, 1, 0.148),
    ],
    # 9,700 updates of 402,000 tokens: quoted in fairseq#361 for more GPUs and
    # the same batch.
    "Ott et al. 2018, abstract, under 5 hours; fairseq#361": [
        ("big", 32_768, 8, "V100", "float16", 3584, 14, 5 * 3600 / 9700),
    ],
}


def published_updates():
    """Yields name, published and predicted seconds, and source of updates.

    Names end with * if the assumptions were fitted to the published time, so
    that agreement proves little.
    """
    for source, rows in _UPDATES.items():
        for preset, vocabulary, count, gpu, precision, *batch, seconds in rows:
            tokens, micro_batches = batch
            parts = update_seconds(
                kt.TransformerConfig.preset(preset, vocabulary_size=vocabulary),
                BatchShape(tokens / _LENGTH, _LENGTH, _LENGTH, tokens),
                precision,
                micro_batches,
                DEVICES[gpu],
                count,
            )
            name = f"{count} x {gpu}, {preset}, {precision}, "
            if micro_batches > 1:
                name += f"{micro_batches} x "
            name += f"{tokens:,}"
            if source == _PAPER or (source == _NVIDIA and count == 1):
                name += " *"
            yield name, seconds, total_seconds(parts), source


def compare_published_updates():
    """Returns `published_updates` as a Markdown table."""
    header = ["update", "seconds", "predicted", "ratio", "source"]
    rows = [
        [name, f"{each:.3f}", f"{found:.3f}", f"{found / each:.2f}", source]
        for name, each, found, source in published_updates()
    ]
    return tabulate(rows, header, "pipe", disable_numparse=True)
