"""Directories that are broken, made up to harm, or of other networks."""

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

from export.errors import InputError
from export.pretrained.arrays import Arrays
from export.pretrained.hugging_face import read_hugging_face


@pytest.fixture
def folder(marian_folder, tmp_path):
    """A copy to be broken."""
    copy = tmp_path / "hf"
    shutil.copytree(marian_folder / "shared", copy)
    (copy / "pytorch_model.bin").unlink()
    return copy


def changed_json(name, **changes):
    def change(folder):
        path = folder / name
        found = json.loads(path.read_text("utf-8"))
        found |= changes
        found = {key: each for key, each in found.items() if each != "gone"}
        path.write_text(json.dumps(found), encoding="utf-8")

    return change


def both_configs(**changes):
    def change(folder):
        for name in ("config.json", "generation_config.json"):
            changed_json(name, **changes)(folder)

    return change


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def missing(name):
    return lambda folder: (folder / name).unlink()


def changed_array(name, change):
    def rewrite(folder):
        path = folder / "model.safetensors"
        arrays = safetensors.numpy.load_file(path)
        array = change(arrays.pop(name))
        if array is not None:
            arrays[name] = array
        safetensors.numpy.save_file(arrays, path)

    return rewrite


def added_array(folder):
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    arrays["model.encoder.layernorm_embedding.weight"] = np.ones(16, "f4")
    safetensors.numpy.save_file(arrays, path)


def huge_header(folder):
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header
    )


_BIAS = "model.encoder.layers.0.fc1.bias"


def _nan(array):
    array = array.copy()
    array[3] = np.nan
    return array


BROKEN = {
    "no configuration": (missing("config.json"), "config.json"),
    "no JSON": (written("config.json", b"{"), "is not JSON"),
    "a list": (written("config.json", b"[]"), "JSON object"),
    "another kind": (changed_json("config.json", model_type="bart"), "'bart'"),
    "pre-norm": (
        changed_json("config.json", normalize_before=True),
        "normalize_before=True",
    ),
    "unscaled": (
        changed_json("config.json", scale_embedding=False),
        "scale_embedding=False",
    ),
    "activation": (
        changed_json("config.json", activation_function="tanh"),
        "'tanh'",
    ),
    "two widths": (
        changed_json("config.json", decoder_ffn_dim=99),
        "decoder_ffn_dim=99",
    ),
    "no width": (changed_json("config.json", d_model="gone"), "d_model"),
    "a huge width": (
        changed_json("config.json", d_model=2**60),
        "d_model",
    ),
    "another width": (
        changed_json("config.json", d_model=2**14),
        r"shape \[\d+, 16\]",
    ),
    "many layers": (
        changed_json("config.json", encoder_layers=10**9),
        "encoder_layers",
    ),
    "one layer more": (
        changed_json("config.json", decoder_layers=2),
        "has no array model.decoder.layers.1",
    ),
    "one layer fewer": (
        changed_json("config.json", encoder_layers=1),
        "no MarianMTModel",
    ),
    "heads": (
        changed_json(
            "config.json", encoder_attention_heads=3, decoder_attention_heads=3
        ),
        "do not divide",
    ),
    "dropout": (changed_json("config.json", dropout=7), "dropout"),
    "no start": (
        changed_json("generation_config.json", decoder_start_token_id="gone"),
        "decoder_start_token_id",
    ),
    "a start outside": (
        changed_json("config.json", decoder_start_token_id=9999),
        "9999",
    ),
    "a start that is the end": (
        both_configs(decoder_start_token_id=0),
        "three ids",
    ),
    "stopping": (
        changed_json("generation_config.json", early_stopping="soon"),
        "early_stopping",
    ),
    "no table": (missing("vocab.json"), "vocab.json"),
    "a start without a piece": (
        changed_json("vocab.json", **{"<pad>": "gone"}),
        "gives to no piece",
    ),
    "two starts": (
        changed_json("config.json", decoder_start_token_id=5),
        "both must be the same",
    ),
    "another end": (
        both_configs(eos_token_id=5, forced_eos_token_id=5),
        "gives </s> the id 0",
    ),
    "no end": (
        changed_json("generation_config.json", eos_token_id="gone"),
        "eos_token_id",
    ),
    "an id without a row": (
        changed_json("vocab.json", ka=7000),
        "only 80 rows of embeddings",
    ),
    "a duplicate": (changed_json("vocab.json", ka=0), "one id to several"),
    "two ids of an added token": (
        written("added_tokens.json", b'{"</s>": 3}'),
        "not of one tokenizer",
    ),
    "an added token without a row": (
        written("added_tokens.json", b'{"<ent>": 80}'),
        "only 80 rows",
    ),
    "an added token that is none": (
        changed_json("tokenizer_config.json", added_tokens_decoder={"1": []}),
        "a text and an id",
    ),
    "tokens that are none": (
        changed_json("tokenizer_config.json", extra_special_tokens=[[]]),
        "a text and an id",
    ),
    "twice": (
        written("vocab.json", b'{"a": 0, "a": 1}'),
        "stands there twice",
    ),
    "no numbers": (written("vocab.json", b'{"a": "0"}'), "piece to id"),
    "too few pieces": (
        written("vocab.json", b'{"</s>": 0, "<unk>": 1, "<pad>": 2}'),
        "gives to no piece",
    ),
    "deep JSON": (written("vocab.json", b"[" * 100_000), "is not JSON"),
    "no SentencePiece": (missing("source.spm"), "source.spm"),
    "another SentencePiece": (
        written("target.spm", b"hello"),
        "target.spm is not a SentencePiece model",
    ),
    "no weights": (
        missing("model.safetensors"),
        "no model.safetensors and no pytorch_model.bin, nor an index",
    ),
    "cut weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(
            (folder / "model.safetensors").read_bytes()[:-99]
        ),
        "cannot be read",
    ),
    "a huge array": (huge_header, "cannot be read"),
    "a missing array": (
        changed_array(_BIAS, lambda array: None),
        f"no array {_BIAS}",
    ),
    "another shape": (
        changed_array(_BIAS, lambda array: array[:-1]),
        r"shape \[23\]",
    ),
    "no floats": (
        changed_array(_BIAS, lambda array: array.astype("i4")),
        "I32",
    ),
    "no number": (changed_array(_BIAS, _nan), "infinite or no numbers"),
    "another network": (added_array, "layernorm_embedding"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_one_clear_error(folder, name):
    change, message = BROKEN[name]
    change(folder)
    with pytest.raises(InputError, match=message) as raised:
        read_hugging_face(folder)
    assert len(str(raised.value).splitlines()) == 1


class _Harmful:
    """Unpickled, it would write a file."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return (exec, (f"open({str(self._path)!r}, 'w').close()",))


_PICKLES = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {}, []]


def _torch_file(path, pickled):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/0", bytes(8))


def test_a_hostile_pickle_is_not_run(tmp_path):
    path, harmed = tmp_path / "pytorch_model.bin", tmp_path / "harmed"
    for protocol in (0, 2, 4):
        _torch_file(path, pickle.dumps(_Harmful(harmed), protocol))
        with pytest.raises(InputError, match="more than a dictionary"):
            Arrays(path)
        # As before PyTorch 1.6, in each of its five pickles.
        for place in range(5):
            pickles = [pickle.dumps(each, 2) for each in _PICKLES]
            pickles[place] = pickle.dumps(_Harmful(harmed), protocol)
            path.write_bytes(b"".join(pickles))
            with pytest.raises(InputError, match="cannot be read"):
                Arrays(path)
            assert not harmed.exists()
    # It would have.
    pickle.loads(pickle.dumps(_Harmful(harmed)))
    assert harmed.exists()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([1, 2]),
        pickle.dumps({"a": object}),
        pickle.dumps({"a": 1})[:-1],
        b"\x80\x02.",
        b"\x80\x02]q\x00Rq\x01.",
        b"nothing of the kind",
    ],
)
def test_other_pickles_are_one_clear_error(tmp_path, content):
    path = tmp_path / "pytorch_model.bin"
    _torch_file(path, content)
    with pytest.raises(InputError, match="cannot be read|has no array"):
        Arrays(path).read("a", (2,))


@hypothesis.given(data=strategies.data())
@hypothesis.settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_damaged_pickles_are_one_clear_error(marian_folder, tmp_path, data):
    with zipfile.ZipFile(
        marian_folder / "shared" / "pytorch_model.bin"
    ) as archive:
        (name,) = [x for x in archive.namelist() if x.endswith("data.pkl")]
        content = bytearray(archive.read(name))
    for _ in range(data.draw(strategies.integers(1, 4))):
        place = data.draw(strategies.integers(0, len(content) - 1))
        content[place] = data.draw(strategies.integers(0, 255))
    path = tmp_path / "pytorch_model.bin"
    _torch_file(path, bytes(content))
    try:
        arrays = Arrays(path)
        for each in arrays.names:
            arrays.read(each, arrays.shape(each))
    except InputError as error:
        assert len(str(error).splitlines()) == 1


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
    arrays = Arrays(path)
    expected = np.arange(6, dtype="f4").reshape(2, 3) / 4
    for name in ("a", "c"):
        np.testing.assert_array_equal(arrays.read(name, (2, 3)), expected)
    np.testing.assert_array_equal(arrays.read("b", (2,)), [1.5, -2.0])


@hypothesis.given(data=strategies.data())
@hypothesis.settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_a_damaged_file_before_1_6_is_one_clear_error(tmp_path, data):
    content = bytearray(_BEFORE_ZIP)
    for _ in range(data.draw(strategies.integers(0, 4))):
        place = data.draw(strategies.integers(0, len(content) - 1))
        content[place] = data.draw(strategies.integers(0, 255))
    end = data.draw(strategies.integers(1, len(content)))
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content[:end])
    try:
        arrays = Arrays(path)
        for each in arrays.names:
            arrays.read(each, arrays.shape(each))
    except InputError as error:
        assert len(str(error).splitlines()) == 1


def test_files_of_other_kinds(tmp_path):
    for name, content in (
        ("pytorch_model.bin", b"\x80\x02}q\x00."),
        ("pytorch_model.bin", b"PK but no archive"),
        ("model.safetensors", b""),
        ("model.safetensors", b"\xff" * 100),
        ("model.npz", pickle.dumps({})),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            Arrays(tmp_path / name)
