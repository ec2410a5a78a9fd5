"""Other networks and damaged directories of Marian are refused by name."""

import io
import shutil
import zipfile

import numpy as np
import pytest
import yaml

from export.common.errors import InputError
from export.pretrained.config_files import (
    MARIAN_DECODER,
    MARIAN_NETWORK,
    check_fields,
)
from export.pretrained.marian_reader import parse_yaml, read_marian
from tests.export.pretrained import marian_directory
from tests.export.pretrained.marian_directory import (
    DECODER,
    OPTIONS,
    SIZE,
    default_arrays,
)

# Options of other networks, and values out of range, that the message names.
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
"""
# Options of Marian 1.12 that this list lacks, and a made-up one.
OTHER_OPTIONS = (
    "transformer-no-bias transformer-no-affine transformer-pool ulr right-left "
    "transformer-disable-position-embeddings input-join-fields special-vocab "
    "embedding-normalization transformer-decoder-ffn-depth made-up"
)
# Fields of decoder.yml, with a word of the message.
DECODERS = [
    ({"models": ["a.npz", "b.npz"]}, "['a.npz', 'b.npz']"),
    ({"models": ["model.bin"]}, "model.bin"),
    ({"models": ["other.npz"]}, "opus.model.npz"),
    ({"models": [".."]}, "models"),
    ({"models": {"a": "b"}}, "models"),
    ({"vocabs": ["a.yml"]}, "vocabs"),
    ({"vocabs": ["source.spm", "target.spm"]}, "'source.spm'"),
    ({"vocabs": ["v.vocab", "v.vocab"]}, "'v.vocab'"),
    ({"vocabs": ["none.yml", "none.yml"]}, "none.yml"),
    ({"beam-size": 0}, "beam-size"),
    ({"normalize": "nan"}, "normalize"),
    ({"normalize": 8.5}, "normalize"),
    ({"max-length-factor": "inf"}, "max-length-factor"),
    ({"word-penalty": [1]}, "word-penalty"),
]
OTHER_SEARCHES = (
    "allow-unk allow-special force-decode skip-cost no-spm-encode tsv "
    "no-spm-decode tsv-fields shortlist output-approx-knn output-sampling "
    "transformer-heads made-up"
)
# Instead of special:model.yml or another YAML file.
BAD_YAML = [
    b"a: &x [l, l]\nb: &y [*x, *x]\nc: [*y, *y]\n",
    b"type: " + b"[" * 100_000,
    b"type: [",
    b"\xff\xfe\x00type",
    b"- transformer\n",
    b"? [a, b]\n: c\n",
    b"a: b\n---\na: b\n",
    b"type: transformer\ntype: s2s\n",
    b"!!python/object/apply:os.system [ls]\n",
    b"",
]


@pytest.fixture
def refused(tmp_path):
    """Writes and changes a directory; returns the message of its refusal."""

    def write_and_read(*given, change=None, **named):
        folder = tmp_path / "marian"
        shutil.rmtree(folder, ignore_errors=True)
        marian_directory.write(folder, default_arrays(), *given, **named)
        if change is not None:
            change(folder)
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


@pytest.mark.parametrize(
    "table, names",
    [(MARIAN_NETWORK, OTHER_OPTIONS), (MARIAN_DECODER, OTHER_SEARCHES)],
    ids=["network", "search"],
)
def test_no_option_is_ignored(table, names):
    for name in names.split():
        for value in (7, "odd", [7], True):
            text = yaml.dump({name: value})
            try:
                notes = check_fields(parse_yaml(text, "a"), table, "a")
            except InputError as error:
                notes = [str(error)]
            assert any(name in each for each in notes)


def replace(name, content):
    """Returns a change of a folder: other bytes, or None for no file."""

    def change(folder):
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)

    return change


def test_other_files(refused):
    for content in BAD_YAML:
        assert "special:model.yml" in refused(content)
        for name in ("decoder.yml", "opus.vocab.yml"):
            assert name in refused(change=replace(name, content))
    for name in ("decoder.yml", "opus.vocab.yml", "source.spm", "target.spm"):
        for content in (None, b"\x00\x01\x02"):
            assert name in refused(change=replace(name, content))
    assert "subword-nmt" in refused(
        change=lambda folder: (folder / "source.spm").rename(
            folder / "source.bpe"
        )
    )


def test_other_tables(refused):
    table = marian_directory.table()
    for change in ({"</s>": "x"}, {"</s>": 5}, {"</s>": [0]}, {"more": SIZE}):
        assert "opus.vocab.yml" in refused(table=table | change)
    del table["</s>"]
    assert "</s>" in refused(table=table)

    def write_other(folder):
        text = (folder / "opus.vocab.yml").read_text().replace("fra", "deu")
        (folder / "other.yml").write_text(text)

    decoder = DECODER | {"vocabs": ["opus.vocab.yml", "other.yml"]}
    assert "different" in refused(decoder=decoder, change=write_other)


def damages():
    """Yields names of arrays and their content; None for no such array."""
    query, bias = "encoder_l1_self_Wq", "decoder_ff_logit_out_b"
    arrays = default_arrays()
    yield query, None
    yield "special:model.yml", None
    yield query, arrays[query][:-1]
    yield bias, arrays[bias][0, :-1]
    yield "decoder_l1_ffn_ffn_ln_scale", np.float32(1)
    yield query, np.full((16, 16), None, object)
    yield "encoder_l3_self_Wq", arrays[query]
    yield "special:model.yml", np.zeros(2**20 + 1, np.int8)
    yield "special:model.yml", np.zeros(9, np.float32)
    yield "special:model.yml", np.full(9, None, object)


def test_damaged_arrays(refused):
    for name, array in damages():

        def rewrite(folder, name=name, array=array):
            path = folder / "opus.model.npz"
            with np.load(path) as stored:
                changed = dict(stored) | {name: array}
            if array is None:
                del changed[name]
            np.savez(path, **changed)

        message = refused(change=rewrite)
        assert name in message and "opus.model.npz" in message


def test_damaged_archives(refused):
    plain, empty = io.BytesIO(), io.BytesIO()
    np.save(plain, np.zeros(3))
    zipfile.ZipFile(empty, "w").close()
    contents = [b"", b"text", plain.getvalue(), empty.getvalue()]
    changes = [lambda stored, each=each: each for each in contents]
    changes += [lambda stored: stored[:1000], lambda stored: stored[:-100]]
    for change in [*changes, with_huge_header]:

        def rewrite(folder, change=change):
            path = folder / "opus.model.npz"
            path.write_bytes(change(path.read_bytes()))

        assert "opus.model.npz" in refused(change=rewrite)


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
