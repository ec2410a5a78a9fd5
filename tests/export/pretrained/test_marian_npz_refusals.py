"""What is no model of ours, or no model at all, is refused by its name."""

import io
import shutil
import zipfile

import numpy as np
import pytest
import yaml

from export.errors import InputError
from export.pretrained.marian_npz import read_marian
from export.pretrained.marian_options import search_notes
from tests import processes
from tests.export.pretrained import npz_directory
from tests.export.pretrained.npz_directory import DECODER, OPTIONS, SIZE

# Options of other networks, and what must be said of them.
OTHERS = [
    ({"type": "s2s"}, "type: 's2s'"),
    (
        {"transformer-decoder-autoreg": "rnn"},
        "transformer-decoder-autoreg: 'rnn'",
    ),
    (
        {"transformer-decoder-autoreg": "average-attention"},
        "'average-attention'",
    ),
    ({"transformer-preprocess": "n"}, "transformer-preprocess: 'n'"),
    ({"transformer-postprocess": "da"}, "transformer-postprocess: 'da'"),
    ({"transformer-postprocess-emb": "nd"}, "postprocess-emb: 'nd'"),
    ({"transformer-postprocess-top": "n"}, "postprocess-top: 'n'"),
    ({"transformer-ffn-depth": 3}, "transformer-ffn-depth: '3'"),
    ({"transformer-ffn-activation": "gelu"}, "relu and swish"),
    ({"transformer-tied-layers": [1, 1]}, "transformer-tied-layers: ["),
    ({"transformer-no-projection": True}, "transformer-no-projection"),
    ({"transformer-attention-mask": "alibi"}, "transformer-attention-mask"),
    ({"transformer-train-position-embeddings": True}, "-position-embeddings"),
    ({"transformer-decoder-dim-ffn": 64}, "one width"),
    ({"transformer-heads": 3}, "do not divide"),
    ({"transformer-heads": 0}, "transformer-heads, a whole number"),
    ({"enc-depth": "many"}, "enc-depth, a whole number"),
    ({"dim-emb": 10**9}, "dim-emb, a whole number"),
    ({"dim-vocabs": [SIZE]}, "dim-vocabs"),
    ({"dim-vocabs": [SIZE, 2**30]}, "dim-vocabs"),
    ({"dim-vocabs": [SIZE - 1] * 2}, "not of the same model"),
    ({"tied-embeddings-all": "perhaps"}, "true or false"),
    ({"input-types": ["sequence", "class"]}, "input-types"),
    ({"right-left": True}, "right-left"),
    ({"lemma-dim-emb": 8}, "lemma-dim-emb"),
]
# The same of decoder.yml.
SEARCHES = [
    ({"models": ["a.npz", "b.npz"]}, "a.npz, b.npz"),
    ({"models": ["model.bin"]}, "only .npz"),
    ({"models": ["other.npz"]}, "but opus.model.npz"),
    ({"models": [".."]}, "models"),
    ({"models": {"a": "b"}}, "models"),
    ({"vocabs": ["a.yml"]}, "names 1 vocabs"),
    ({"vocabs": ["source.spm", "target.spm"]}, "SentencePiece model"),
    ({"vocabs": ["v.fsv", "v.fsv"]}, "factored vocabulary"),
    ({"vocabs": ["none.yml", "none.yml"]}, "none.yml"),
    ({"beam-size": 0}, "beam-size"),
    ({"normalize": "nan"}, "normalize"),
    ({"max-length-factor": "inf"}, "max-length-factor"),
    ({"word-penalty": [1]}, "word-penalty"),
]
# What special:model.yml or another YAML file may be instead.
BAD_YAML = {
    "references": b"a: &x [l, l]\nb: &y [*x, *x]\nc: [*y, *y]\n",
    "depth": b"type: " + b"[" * 100_000,
    "no YAML": b"type: [",
    "bytes": b"\xff\xfe\x00type",
    "a list": b"- transformer\n",
    "a name of lists": b"? [a, b]\n: c\n",
    "two documents": b"a: b\n---\na: b\n",
    "twice": b"type: transformer\ntype: s2s\n",
    "nothing": b"",
}


@pytest.fixture(scope="module")
def arrays():
    return npz_directory.arrays_of(npz_directory.model())


def refused(folder):
    with pytest.raises(InputError) as caught:
        read_marian(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


@pytest.mark.parametrize("options, said", OTHERS, ids=str)
def test_other_networks(options, said, arrays, tmp_path):
    folder = npz_directory.write(tmp_path, arrays, OPTIONS | options)
    assert said in refused(folder)


@pytest.mark.parametrize("decoder, said", SEARCHES, ids=str)
def test_decoder_yml(decoder, said, arrays, tmp_path):
    folder = npz_directory.write(tmp_path, arrays, decoder=DECODER | decoder)
    assert said in refused(folder)


# Options of Marian 1.12 that none of the tables above has, and one of none.
OF_A_NETWORK = (
    "transformer-no-bias transformer-no-affine transformer-pool ulr right-left "
    "transformer-disable-position-embeddings input-join-fields special-vocab "
    "embedding-normalization transformer-decoder-ffn-depth made-up"
)
OF_A_SEARCH = (
    "allow-unk allow-special force-decode skip-cost no-spm-encode tsv "
    "no-spm-decode tsv-fields shortlist output-approx-knn output-sampling "
    "transformer-heads made-up"
)


@pytest.mark.parametrize("name", OF_A_NETWORK.split())
def test_no_option_of_a_network_is_ignored(name, arrays, tmp_path):
    for value in (7, "odd", [7], True):
        folder = npz_directory.write(tmp_path, arrays, OPTIONS | {name: value})
        assert name in refused(folder)


@pytest.mark.parametrize("name", OF_A_SEARCH.split())
def test_no_option_of_a_search_is_ignored(name):
    for value in (7, "odd", [7], True):
        decoder = DECODER | {name: value}
        try:
            notes = search_notes(yaml.load(yaml.dump(decoder), yaml.BaseLoader))
        except InputError as error:
            notes = [str(error)]
        assert any(name in each for each in notes)


@pytest.mark.parametrize("kind", BAD_YAML)
def test_yaml(kind, arrays, tmp_path):
    folder = npz_directory.write(tmp_path / "in", arrays, BAD_YAML[kind])
    assert "special:model.yml" in refused(folder)
    for name in ("decoder.yml", "opus.vocab.yml"):
        folder = npz_directory.write(tmp_path / name, arrays)
        (folder / name).write_bytes(BAD_YAML[kind])
        assert name in refused(folder)


@pytest.mark.parametrize(
    "name", ["decoder.yml", "opus.vocab.yml", "source.spm", "target.spm"]
)
def test_a_missing_file(name, arrays, tmp_path):
    folder = npz_directory.write(tmp_path, arrays)
    (folder / name).unlink()
    assert f"{name}: No such file" in refused(folder)
    (folder / name).write_bytes(b"\x00\x01\x02 no such thing")
    assert name in refused(folder)


def test_text_of_subword_nmt(arrays, tmp_path):
    folder = npz_directory.write(tmp_path, arrays)
    (folder / "source.spm").rename(folder / "source.bpe")
    assert "subword-nmt" in refused(folder)


def test_a_table_of_another_kind(arrays, tmp_path):
    words = npz_directory.table()
    for number, (change, said) in enumerate(
        [
            ({"</s>": "x"}, "must give each piece an id"),
            ({"</s>": 5}, "one id to several"),
            ({"</s>": [0]}, "must give each piece an id"),
            ({"more": SIZE}, "not of the same model"),
        ]
    ):
        folder = npz_directory.write(
            tmp_path / str(number), arrays, words=words | change
        )
        assert said in refused(folder)
    del words["</s>"]
    folder = npz_directory.write(tmp_path / "end", arrays, words=words)
    assert "must have the piece </s>" in refused(folder)


def test_different_vocabularies_for_one_matrix(arrays, tmp_path):
    decoder = DECODER | {"vocabs": ["opus.vocab.yml", "other.yml"]}
    folder = npz_directory.write(tmp_path, arrays, decoder=decoder)
    other = (folder / "opus.vocab.yml").read_text().replace("fra", "deu")
    (folder / "other.yml").write_text(other)
    assert "different vocabularies" in refused(folder)


def damages(arrays):
    query, scale = "encoder_l1_self_Wq", "decoder_l1_ffn_ffn_ln_scale"
    bias, table = "decoder_ff_logit_out_b", "Wemb"
    yield {query: None}, query
    yield {scale: None}, scale
    yield {bias: None}, bias
    yield {table: None}, table
    yield {query: arrays[query][:-1]}, "the configuration needs [16, 16]"
    yield {table: arrays[table][:-1]}, table
    yield {bias: arrays[bias][0, :-1]}, bias
    yield {scale: np.float32(1)}, scale
    yield {query: np.full_like(arrays[query], np.nan)}, "no numbers"
    yield {query: arrays[query].astype(np.int32)}, "int32"
    yield {query: np.full((16, 16), None, object)}, query
    yield {"Wpos": np.zeros((99, 16), np.float32)}, "such as Wpos"
    yield {"encoder_l3_self_Wq": arrays[query]}, "encoder_l3_self_Wq"
    yield {"special:model.yml": None}, "no array special:model.yml"
    yield {"special:model.yml": np.zeros(2**20 + 1, np.int8)}, "1,048,576"
    yield {"special:model.yml": np.zeros(9, np.float32)}, "no bytes"
    yield {"special:model.yml": np.full(9, None, object)}, "special:model.yml"


def test_arrays(arrays, tmp_path):
    for number, (change, said) in enumerate(damages(arrays)):
        folder = npz_directory.write(tmp_path / str(number), arrays)
        path = folder / "opus.model.npz"
        with np.load(path) as stored:
            kept = dict(stored) | change
        np.savez(path, **{k: v for k, v in kept.items() if v is not None})
        message = refused(folder)
        assert said in message
        assert str(path) in message


def test_a_file_that_is_no_archive(arrays, tmp_path):
    folder = npz_directory.write(tmp_path, arrays)
    path = folder / "opus.model.npz"
    whole = path.read_bytes()
    plain, empty = io.BytesIO(), io.BytesIO()
    np.save(plain, np.zeros(3))
    zipfile.ZipFile(empty, "w").close()
    for content in (
        whole[:1000],
        whole[:-100],
        b"",
        b"text",
        plain.getvalue(),
        empty.getvalue(),
    ):
        path.write_bytes(content)
        assert str(path) in refused(folder)


def test_a_made_up_size_is_not_believed(arrays, tmp_path):
    """Of a header that says more than any memory holds."""
    folder = npz_directory.write(tmp_path, arrays)
    path = folder / "opus.model.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header,
        {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**16)},
    )
    with zipfile.ZipFile(path) as stored:
        kept = {name: stored.read(name) for name in stored.namelist()}
    kept["Wemb.npy"] = header.getvalue()
    with zipfile.ZipFile(path, "w") as written:
        for name, content in kept.items():
            written.writestr(name, content)
    assert "Wemb has shape [1048576, 65536]" in refused(folder)


def test_the_command_writes_nothing(arrays, tmp_path):
    folder = npz_directory.write(
        tmp_path / "in", arrays, OPTIONS | OTHERS[0][0]
    )
    path = tmp_path / "out"

    def run(*given):
        done = processes.run(
            {"module": "export.import_marian"},
            [*given, f"--model_dir={path}"],
        )
        assert done.code == 2
        assert done.err.startswith("Error: ")
        assert done.err.count("\n") == 1
        assert [each.name for each in tmp_path.iterdir()] == ["in"]
        return done.err

    assert "type: 's2s'" in run(f"--npz={folder}")
    assert "one of --hf and --npz" in run()
    assert "one of --hf and --npz" in run("--hf=a", "--npz=b")
    assert "decoder.yml" in run(f"--npz={tmp_path / 'none'}")
    shutil.rmtree(folder)
    folder.mkdir()
    assert "decoder.yml: No such file" in run(f"--npz={folder}")
