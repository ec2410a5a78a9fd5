"""Marian's own directories are read as what they are, or refused by name."""

import io
import shutil
import zipfile

import numpy as np
import pytest
import sentencepiece
import yaml

from export.common.errors import InputError
from export.pretrained.marian_npz_reader import read_marian_npz
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from keras_transformer.config import BEGIN_ID
from tests.export.pretrained import marian_directory
from tests.export.pretrained.marian_directory import (
    DECODER,
    MISSING_ROWS,
    OPTIONS,
    ORDER,
    SIZE,
    arrays_of,
    default_arrays,
    write,
)
from tests.export.pretrained.marian_graph import MarianGraph

_SIDES = ["encoder_Wemb", "decoder_Wemb"]
# Options that tie matrices of embeddings, our field, and the arrays.
TIES = [
    ({"tied-embeddings-all": True}, "all", ["Wemb"]),
    ({"tied-embeddings-src": True, "tied-embeddings": True}, "all", ["Wemb"]),
    ({"tied-embeddings": True}, "target-softmax", _SIDES),
    (
        {"tied-embeddings-src": True},
        "none",
        ["Wemb", "decoder_ff_logit_out_Wt"],
    ),
    ({}, "none", [*_SIDES, "decoder_ff_logit_out_Wt"]),
    # Of older versions.
    ({}, "none", [*_SIDES, "decoder_ff_logit_out_W"]),
]


def test_weights_are_read_to_the_bit(tmp_path):
    for number, (tied, share_embeddings, embeddings) in enumerate(TIES):
        rows = 0 if share_embeddings == "all" else SIZE + 2
        model = marian_directory.model(
            share_embeddings=share_embeddings, source_vocabulary_size=rows
        )
        if "tied-embeddings-src" in tied:
            shared = model.target_embedding.embeddings
            model.source_embedding.embeddings.assign(shared)
        folder = write(
            tmp_path / str(number),
            arrays_of(model, embeddings),
            OPTIONS | {"tied-embeddings-all": False} | tied,
        )
        pretrained = read_marian_npz(folder)
        assert pretrained.warnings == []
        weights = pretrained.model.weights
        for one, other in zip(model.weights, weights, strict=True):
            np.testing.assert_array_equal(one, other, one.path)
        architecture = pretrained.model.config.architecture()
        assert architecture == model.config.architecture()


def test_logits_match_the_graph_of_marian(tmp_path):
    for activation, ours in (("swish", "silu"), ("relu", "relu")):
        arrays = arrays_of(marian_directory.model(activation=ours))
        options = OPTIONS | {"transformer-ffn-activation": activation}
        model = read_marian_npz(write(tmp_path / ours, arrays, options)).model
        graph = MarianGraph(arrays, options)
        generator = np.random.default_rng(1)
        # Marian's rows; our ids are their positions in `ORDER`.
        rows = np.array(ORDER)
        for length in (1, 2, 9):
            source = np.append(generator.integers(2, SIZE, length), 0)
            target = generator.integers(2, SIZE, length + 2)
            given = np.append(BEGIN_ID, rows[target])
            logits = model(
                {"source": rows[source][None], "target": given[None]}
            ).numpy()[0]
            expected = graph.logits(source, target)
            np.testing.assert_allclose(logits[:, rows], expected, atol=3e-4)
            assert logits[:, MISSING_ROWS].max() < -1e8


def test_ids_are_those_of_the_table(tmp_path):
    """By piece; SentencePiece's own ids are others."""
    table = marian_directory.table()
    hard = ["▁no", "null", "1_0", "~", "'", '"', ": ", "#", "<<", "="]
    table |= {name: SIZE + place for place, name in enumerate(hard)}
    arrays = {**default_arrays()}
    for name, axis in (("Wemb", 0), ("decoder_ff_logit_out_b", 1)):
        widths = [(0, 0), (0, 0)]
        widths[axis] = (0, len(hard))
        arrays[name] = np.pad(arrays[name], widths)
    options = OPTIONS | {"dim-vocabs": [len(table)] * 2}
    folder = write(tmp_path, arrays, options, table=table)
    tokenizers = load_tokenizer(read_marian_npz(folder).vocabulary)
    for side in ("source", "target"):
        tokenizer = getattr(tokenizers, side)
        assert tokenizer.vocabulary_size == len(table) + 2
        # Our four special ids, then the others without </s> and <unk>.
        for name, number in table.items():
            if number > 1:
                assert tokenizer.id_to_token(number + 2) == name
        processor = sentencepiece.SentencePieceProcessor(
            model_proto=marian_directory.spm(side)
        )
        texts = marian_directory.SENTENCES[side][:20]
        for text, ids in zip(texts, tokenizer.encode(texts)):
            rows = [table[piece] for piece in processor.EncodeAsPieces(text)]
            assert ids.tolist() == [row + 2 for row in rows] + [3]


def test_a_directory_of_opus_mt(tmp_path):
    """decoder.yml has the search; a table may lack pieces."""
    decoder = DECODER | {
        "vocabs": ["/of/another/machine/opus.vocab.yml", "opus.vocab.yml"],
        "normalize": 0.6,
        "word-penalty": 0.5,
        "allow-unk": True,
        "max-length-factor": 2,
    }
    # PyYAML of OPUS-MT's scripts keeps one of two equal pieces.
    table = marian_directory.table()
    table = {name: row for name, row in table.items() if row not in (5, 9)}
    table[""] = 5
    folder = write(tmp_path, default_arrays(), decoder=decoder, table=table)
    pretrained = read_marian_npz(folder)
    config = pretrained.model.config
    assert config.vocabulary_size == SIZE + 2
    assert (config.beam_size, config.alpha) == (3, 0.6)
    assert config.length_penalty == "power"
    assert config.stop_criterion == "k_finished"
    # Twice as long up to 128 pieces.
    assert config.max_extra_tokens == 128
    unnamed, allow_unk, word_penalty = dict.fromkeys(pretrained.warnings)
    assert f"no piece of 2 of the model's {SIZE} ids" in unnamed
    assert "allow-unk" in allow_unk and "word-penalty" in word_penalty


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
    ({"vocabs": ["source.spm", "target.spm"]}, "one vocabulary"),
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
            read_marian_npz(folder)
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
