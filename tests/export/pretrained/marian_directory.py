"""Directories as Marian writes them, with tiny random models of ours."""

import functools
import io

import numpy as np
import sentencepiece
import yaml

from export.pretrained.weight_mapping import (
    layer_arrays,
    layer_mappings,
    marian_columns,
)
from tests import made_up_text
from tests.export import tiny

SENTENCES = {
    "source": made_up_text.sentences(300, 1),
    "target": made_up_text.sentences(300, 2),
}


@functools.cache
def spm(side):
    """Bytes of a SentencePiece model, of the kind of OPUS-MT's."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES[side]),
        model_writer=written,
        model_type="unigram",
        vocab_size=80,
        minloglevel=2,
    )
    return written.getvalue()


def pieces(side):
    loaded = sentencepiece.SentencePieceProcessor(model_proto=spm(side))
    return [loaded.IdToPiece(number) for number in range(len(loaded))]


def table():
    """Piece to id: those of both sides in alphabetical order."""
    both = {*pieces("source"), *pieces("target")} - {"<s>", "</s>", "<unk>"}
    names = ["</s>", "<unk>", *sorted(both), ">>fra<<"]
    return {name: number for number, name in enumerate(names)}


_TABLE = table()
SIZE = len(_TABLE)
OPTIONS = {
    "type": "transformer",
    "dim-vocabs": [SIZE, SIZE],
    "dim-emb": 16,
    "enc-depth": 2,
    "dec-depth": 1,
    "transformer-heads": 2,
    "transformer-dim-ffn": 32,
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False,
    "transformer-guided-alignment-layer": "last",
    "transformer-tied-layers": [],
    "tied-embeddings": False,
    "tied-embeddings-src": False,
    "tied-embeddings-all": True,
    "input-types": [],
    "version": "v1.9.0",
}
DECODER = {
    "relative-paths": True,
    "models": ["opus.model.npz"],
    "vocabs": ["opus.vocab.yml", "opus.vocab.yml"],
    "beam-size": 3,
    "normalize": 1,
    "word-penalty": 0,
}
# Our ids of padding and begin, for which Marian has no rows.
MISSING_ROWS = [0, 2]
# Our ids in the order of Marian's rows: end and unknown piece come first.
ORDER = [3, 1, *range(4, SIZE + 2)]


def model(seed=3, **changes):
    made = tiny.model(
        seed=seed,
        norm="post",
        vocabulary_size=SIZE + 2,
        num_layers=2,
        num_decoder_layers=1,
        **{"activation": "silu", "share_embeddings": "all"} | changes,
        output_bias=True,
        sinusoid_rates="marian",
    )
    bias = made.output_embedding.bias
    for weight, missing in (
        (made.source_embedding.embeddings, 0.0),
        (made.target_embedding.embeddings, 0.0),
        (made.output_embedding.embeddings, 0.0),
        (bias, -1e9),
    ):
        values = weight.numpy()
        values[MISSING_ROWS] = missing
        weight.assign(values)
    return made


def arrays_of(made, embeddings=("Wemb",)):
    """Returns Marian's arrays, and those of embeddings with some names."""
    columns = np.argsort(marian_columns(16))
    stored = {
        name: array[None] if array.ndim == 1 else array
        for name, array in layer_arrays(
            made, layer_mappings(made.config, is_hugging_face=False)
        ).items()
    }

    def rows(side):
        weight = getattr(made, f"{side}_embedding").embeddings.numpy()
        return weight[ORDER][:, columns]

    make = {
        "Wemb": lambda: rows("target"),
        "encoder_Wemb": lambda: rows("source"),
        "decoder_Wemb": lambda: rows("target"),
        "decoder_ff_logit_out_Wt": lambda: rows("output"),
        "decoder_ff_logit_out_W": lambda: rows("output").T,
    }
    stored |= {name: make[name]() for name in embeddings}
    bias = made.output_embedding.bias.numpy()
    return stored | {"decoder_ff_logit_out_b": bias[ORDER][None]}


@functools.cache
def default_arrays():
    return arrays_of(model())


def to_yaml(options):
    return yaml.dump(options, allow_unicode=True)


def write(folder, arrays, options=OPTIONS, decoder=DECODER, table=None):
    """Writes a directory; `options` may be the bytes of special:model.yml."""
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(options, bytes):
        options = to_yaml(options).encode() + b"\0"
    arrays = {"special:model.yml": np.frombuffer(options, np.int8), **arrays}
    np.savez(folder / "opus.model.npz", **arrays)
    (folder / "decoder.yml").write_text(to_yaml(decoder))
    table = _TABLE if table is None else table
    (folder / "opus.vocab.yml").write_text(to_yaml(table), "utf-8")
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(spm(side))
    return folder
