"""Other networks and damaged directories of Marian are refused by name."""

import io
import shutil
import zipfile

import numpy as np
import pytest
import yaml

from export.common.errors import InputError
from export.pretrained.marian_reader import read_marian
from tests.export.pretrained import marian_directory
from tests.export.pretrained.marian_directory import (
    DECODER,
    OPTIONS,
    SIZE,
    default_arrays,
)

# Options of other networks, and values out of range.
NETWORKS = """
type=s2s transformer-decoder-autoreg=rnn transformer-preprocess=n
transformer-decoder-autoreg=average-attention transformer-postprocess=da
transformer-postprocess-emb=nd transformer-postprocess-top=n
transformer-ffn-depth=3 transformer-ffn-activation=gelu
transformer-tied-layers=[1,1] transformer-no-projection=true
transformer-attention-mask=alibi transformer-train-position-embeddings=true
transformer-decoder-dim-ffn=64 transformer-heads=0 enc-depth=many
dim-emb=1000000000 dim-vocabs=[9] dim-vocabs=[9,1000000000]
tied-embeddings-all=perhaps input-types=[sequence,class] lemma-dim-emb=8
transformer-no-bias=true ulr=true right-left=true made-up=1
"""
# Fields of decoder.yml, with a word of the message.
DECODERS = [
    ({"models": ["a.npz", "b.npz"]}, "['a.npz', 'b.npz']"),
    ({"models": ["other.npz"]}, "opus.model.npz"),
    ({"models": [".."]}, "models"),
    ({"models": {"a": "b"}}, "models"),
    ({"vocabs": ["a.yml"]}, "vocabs"),
    ({"vocabs": ["source.spm", "target.spm"]}, "source.spm"),
    ({"vocabs": ["none.yml", "none.yml"]}, "none.yml"),
    ({"beam-size": 0}, "beam-size"),
    ({"normalize": "nan"}, "normalize"),
    ({"max-length-factor": "inf"}, "max-length-factor"),
    ({"word-penalty": [1]}, "word-penalty"),
    ({"made-up": 1}, "made-up"),
]
MODEL = "opus.model.npz"
# Instead of special:model.yml or another YAML file.
BAD_YAML = [
    b"a: &x [l, l]\nb: &y [*x, *x]\nc: [*y, *y]\n",
    b"type: " + b"[" * 100_000,
    b"type: [",
    b"\xff\xfe\x00type",
    b"- transformer\n",
    b"? [a, b]\n: c\n",
    b"type: transformer\ntype: s2s\n",
    b"!!python/object/apply:os.system [ls]\n",
    b"",
]


@pytest.fixture
def refused(tmp_path):
    """Writes a directory and returns the message of its refusal.

    `files` are other contents by name: bytes, a function of the bytes, or None
    for no such file.
    """

    def write_and_read(*given, files=None, **named):
        folder = tmp_path / "marian"
        shutil.rmtree(folder, ignore_errors=True)
        marian_directory.write(folder, default_arrays(), *given, **named)
        for name, content in (files or {}).items():
            if content is None:
                (folder / name).unlink()
                continue
            if callable(content):
                content = content((folder / name).read_bytes())
            (folder / name).write_bytes(content)
        with pytest.raises(InputError) as raised:
            read_marian(folder)
        message = str(raised.value)
        assert "\n" not in message and len(message) < 500
        return message

    return write_and_read


def test_other_networks_and_searches(refused):
    for option in NETWORKS.split():
        name, value = option.split("=")
        assert name in refused(OPTIONS | {name: yaml.safe_load(value)})
    assert "heads" in refused(OPTIONS | {"transformer-heads": 3})
    sizes = {"dim-vocabs": [SIZE - 1] * 2}
    assert "opus.vocab.yml" in refused(OPTIONS | sizes)
    for changes, word in DECODERS:
        assert word in refused(decoder=DECODER | changes)


def test_other_files(refused):
    for content in BAD_YAML:
        assert "special:model.yml" in refused(content)
        for name in ("decoder.yml", "opus.vocab.yml"):
            assert name in refused(files={name: content})
    for name in ("decoder.yml", "opus.vocab.yml", "source.spm", "target.spm"):
        for content in (None, b"\x00\x01\x02"):
            assert name in refused(files={name: content})


def test_other_tables(refused):
    table = marian_directory.table()
    for change in ({"</s>": "x"}, {"</s>": 5}, {"</s>": [0]}, {"more": SIZE}):
        assert "opus.vocab.yml" in refused(table=table | change)
    del table["</s>"]
    assert "</s>" in refused(table=table)

    table = marian_directory.table()
    table[">>deu<<"] = table.pop(">>fra<<")
    files = {"other.yml": marian_directory.to_yaml(table).encode()}
    decoder = DECODER | {"vocabs": ["opus.vocab.yml", "other.yml"]}
    assert "different" in refused(decoder=decoder, files=files)


def test_damaged_arrays(refused):
    query, text = "encoder_l1_self_Wq", "special:model.yml"
    bias = "decoder_ff_logit_out_b"
    arrays = default_arrays()
    for name, array in (
        (query, None),
        (query, arrays[query][:-1]),
        (query, np.full((16, 16), None, object)),
        (bias, arrays[bias][0, :-1]),
        ("encoder_l3_self_Wq", arrays[query]),
        (text, np.zeros(2**20 + 1, np.int8)),
        (text, np.zeros(9, np.float32)),
    ):

        def rewrite(stored, name=name, array=array):
            changed = dict(np.load(io.BytesIO(stored))) | {name: array}
            if array is None:
                del changed[name]
            written = io.BytesIO()
            np.savez(written, **changed)
            return written.getvalue()

        message = refused(files={MODEL: rewrite})
        assert name in message and MODEL in message


def test_damaged_archives(refused):
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    for content in (
        b"text",
        empty.getvalue(),
        lambda stored: stored[:1000],
        lambda stored: stored[:-100],
        with_huge_header,
    ):
        assert MODEL in refused(files={MODEL: content})


def with_huge_header(content):
    """Returns an archive that declares an array larger than any memory."""
    shape = {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**16)}
    header, changed = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, shape)
    with (
        zipfile.ZipFile(io.BytesIO(content)) as stored,
        zipfile.ZipFile(changed, "w") as written,
    ):
        for name in stored.namelist():
            huge = name == "Wemb.npy"
            written.writestr(
                name, header.getvalue() if huge else stored.read(name)
            )
    return changed.getvalue()
