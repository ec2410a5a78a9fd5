"""Directories that are damaged, hostile, or of other networks."""

import base64
import json
import pickle
import shutil
import zipfile
import zlib

import hypothesis
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import strategies

from export.common.errors import InputError
from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.weights_file import WeightsFile

CONFIG, GENERATION = "config.json", "generation_config.json"
VOCABULARY, TOKENIZER = "vocab.json", "tokenizer_config.json"
WEIGHTS = "model.safetensors"
HEADS = {"encoder_attention_heads": 3, "decoder_attention_heads": 3}
BOTH = CONFIG, GENERATION
# Files; their new content, the fields that change ("gone" removes one), or
# None for no file; and a word that the error must have.
BROKEN = [
    (CONFIG, None, CONFIG),
    (CONFIG, b"{", CONFIG),
    (CONFIG, {"decoder_ffn_dim": 99}, "decoder_ffn_dim"),
    (CONFIG, {"d_model": 2**60}, "d_model"),
    (CONFIG, {"d_model": 2**14}, "shape"),
    (CONFIG, {"encoder_layers": 10**9}, "encoder_layers"),
    (CONFIG, {"encoder_layers": 1}, "model.encoder.layers.1"),
    (CONFIG, HEADS, "heads"),
    (CONFIG, {"decoder_start_token_id": 9999}, "9999"),
    (GENERATION, {"decoder_start_token_id": "gone"}, "decoder_start_token_id"),
    (GENERATION, {"eos_token_id": "gone"}, "eos_token_id"),
    (BOTH, {"decoder_start_token_id": 0}, "three ids"),
    (BOTH, {"eos_token_id": 5, "forced_eos_token_id": 5}, "eos_token_id"),
    (VOCABULARY, None, VOCABULARY),
    (VOCABULARY, {"ka": 7000}, "7000"),
    (VOCABULARY, {"ka": 0}, VOCABULARY),
    (VOCABULARY, b"[" * 100_000, VOCABULARY),
    ("added_tokens.json", b'{"</s>": 3}', VOCABULARY),
    ("added_tokens.json", b'{"<ent>": 80}', "80"),
    (TOKENIZER, {"added_tokens_decoder": {"1": []}}, "added"),
    ("source.spm", None, "source.spm"),
    ("target.spm", b"hello", "target.spm"),
    (WEIGHTS, None, WEIGHTS),
    (WEIGHTS, b"\xff" * 100, WEIGHTS),
]


def break_file(path, change):
    if change is None:
        path.unlink()
    elif isinstance(change, bytes):
        path.write_bytes(change)
    else:
        fields = json.loads(path.read_text("utf-8")) | change
        fields = {key: each for key, each in fields.items() if each != "gone"}
        path.write_text(json.dumps(fields), "utf-8")


def refusal(folder):
    with pytest.raises(InputError) as raised:
        read_hugging_face(folder)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message


def test_a_broken_file_is_one_clear_error(folder, tmp_path):
    for number, (files, change, word) in enumerate(BROKEN):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        for file in (files,) if isinstance(files, str) else files:
            break_file(copy / file, change)
        assert word in refusal(copy), (files, change)


def huge_header():
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
    ).encode()
    return len(header).to_bytes(8, "little") + header


def test_broken_arrays_are_one_clear_error(folder):
    path = folder / "model.safetensors"
    stored, name = path.read_bytes(), "model.encoder.layers.0.fc1.bias"
    for content in (stored[:-99], huge_header()):
        path.write_bytes(content)
        assert str(path) in refusal(folder)
    path.write_bytes(stored)
    arrays = safetensors.numpy.load_file(path)
    bias = arrays[name]
    bad = bias.copy()
    bad[3] = np.nan
    del arrays[name]
    for changes in (
        {},
        {name: bias[:-1]},
        {name: bias.astype("i4")},
        {name: bad},
        {name: bias, "model.encoder.layernorm_embedding.weight": bias},
        {name: bias, "model.encoder.embed_positions.weight": bias[0].copy()},
    ):
        changes = {key: np.asarray(each) for key, each in changes.items()}
        safetensors.numpy.save_file(arrays | changes, path)
        assert [name, *changes][-1] in refusal(folder)


class _Harmful:
    """Unpickled, it would write a file."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return (exec, (f"open({str(self._path)!r}, 'w').close()",))


_LEGACY = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {}, []]


def torch_file(path, pickled):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/0", bytes(8))


def test_a_hostile_pickle_is_not_run(tmp_path):
    path, harmed = tmp_path / "pytorch_model.bin", tmp_path / "harmed"
    for protocol in (0, 2, 4):
        harmful = pickle.dumps(_Harmful(harmed), protocol)
        torch_file(path, harmful)
        with pytest.raises(InputError):
            WeightsFile(path)
        # As before PyTorch 1.6, in each of its five pickles.
        for place in range(5):
            pickles = [pickle.dumps(each, 2) for each in _LEGACY]
            pickles[place] = harmful
            path.write_bytes(b"".join(pickles))
            with pytest.raises(InputError):
                WeightsFile(path)
            assert not harmed.exists()
    # It would have.
    pickle.loads(pickle.dumps(_Harmful(harmed)))
    assert harmed.exists()


OTHER_PICKLES = [
    pickle.dumps([1, 2]),
    pickle.dumps({"a": object}),
    pickle.dumps({"a": 1})[:-1],
    b"nothing of the kind",
    # Names that are not allowed, and a class in the place of a function.
    b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
    b"\x80\x02ctorch._utils\n_rebuild_qtensor\n.",
    b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    # A memo of 64 GB.
    b"\x80\x02}r\xff\xff\xff\xff.",
    # Attributes for what rebuilds tensors.
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb.",
]


def test_other_files_are_one_clear_error(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    for content in OTHER_PICKLES:
        torch_file(path, content)
        with pytest.raises(InputError):
            WeightsFile(path).read("a", (2,))
    for content in b"\x80\x02}q\x00.", b"PK but no archive":
        path.write_bytes(content)
        with pytest.raises(InputError):
            WeightsFile(path)


# torch.save of PyTorch 2.13 with _use_new_zipfile_serialization=False, as
# before 1.6: of {"a": [[0, 0.25, 0.5], [0.75, 1, 1.25]], "b": [1.5, -2] in
# bfloat16, "c": "a" once more}.
_BEFORE_ZIP = zlib.decompress(
    base64.b85decode(
        "c-n1{%}&BV5XZOM0=f!*YrJ{H3sFQZ7cs_g+4zN*UQ7dJLu;BY({4#LA>jfMpTUDiA"
        "A{HN5llQdEutRWWH#CV%>L&$Goa7R|9q)`?A*UyZ<hx2;$6qP52R=<6GFP7RML^Y-"
        "4kKt$pADgu=1GkJ*9kMi=gc_1E5b9Ls30+g&ld1A_Bb+M$yWk7`ZZ3km1zQ@#O^yv"
        "fQwY#6t!h$Z;c%XFWAko1i&LhK^gZW99h~vqRB}J-=-$5kxYydu0Z+ShRA9IaW410"
        "`%z@R`+F7-A+XYhE>3tYQ-#@$CYYj&#YF<kV!e5Zj2n+O9i<bPB`WI2<EuXwGqsZ9"
        "UR#gj>3r}b``coDB9<qqZqK=1}rF8Y(PGRZ9&0B7I)VFECtv<`axLwMKBKz5#Xp|!"
        "m^v?6kD&Pt%tD6wIQsH-Nb!e!A1i%Q+Efp+<dZ}yJR{4%%c70PDLq8{+_`JUNu5aF"
        "$Nf~HTs>I)X3xuNHm5Q"
    )
)


def test_a_file_before_pytorch_1_6_is_read(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(_BEFORE_ZIP)
    arrays = WeightsFile(path)
    expected = np.arange(6, dtype="f4").reshape(2, 3) / 4
    for name in ("a", "c"):
        np.testing.assert_array_equal(arrays.read(name, (2, 3)), expected)
    np.testing.assert_array_equal(arrays.read("b", (2,)), [1.5, -2.0])


def test_a_file_of_another_byte_order_is_refused(marian_folder, tmp_path):
    stored = marian_folder / "shared" / "pytorch_model.bin"
    path = tmp_path / "pytorch_model.bin"
    for byte_order in "little", "big":
        with zipfile.ZipFile(stored) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name.endswith("/byteorder"):
                    content = byte_order
                new.writestr(name, content)
        if byte_order == "little":
            assert WeightsFile(path).names == WeightsFile(stored).names
        else:
            with pytest.raises(InputError, match="endian"):
                WeightsFile(path)


def damage(data, content, changes):
    content = bytearray(content)
    for _ in range(changes):
        place = data.draw(strategies.integers(0, len(content) - 1))
        content[place] = data.draw(strategies.integers(0, 255))
    return bytes(content)


def read_all(path):
    try:
        arrays = WeightsFile(path)
        for each in arrays.names:
            arrays.read(each, arrays.shape(each))
    except InputError as error:
        assert len(str(error).splitlines()) == 1


@hypothesis.settings(
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(data=strategies.data())
def test_damaged_pickles_are_one_clear_error(marian_folder, tmp_path, data):
    """In an archive, and in a truncated file before PyTorch 1.6."""
    stored = marian_folder / "shared" / "pytorch_model.bin"
    with zipfile.ZipFile(stored) as archive:
        (name,) = [x for x in archive.namelist() if x.endswith("data.pkl")]
        content = archive.read(name)
    path = tmp_path / "pytorch_model.bin"
    changes = data.draw(strategies.integers(1, 4))
    torch_file(path, damage(data, content, changes))
    read_all(path)
    content = damage(data, _BEFORE_ZIP, changes - 1)
    path.write_bytes(content[: data.draw(strategies.integers(1, len(content)))])
    read_all(path)
