"""The files of Firefox's engine, parsed here and read by the engine itself."""

import re
import struct

import numpy as np
import pytest
import sentencepiece
import yaml

from export.model_directory import ModelDirectory
from export.pretrained.bergamot_writer import (
    make_bergamot_model,
    measure_multipliers,
)
from tests.export import commands
from tests.export.pretrained.marian_engines import (
    TEXTS,
    train_cipher,
    translate_with_bergamot,
    translate_with_marian,
    write_model,
)
from tests.export.pretrained.marian_graph import MarianGraph
from tests.export.translators.made_up_shortlist import made_up_shortlist
from tests.trainers import cipher

# NumPy's types of the arrays in a file, by Marian's.
TYPES = {0x404: "<f4", 0x101: "i1", 0x4101: "i1"}


def parse(content):
    """Returns (type, shape, values, multiplier or None) by name."""
    version, count = struct.unpack_from("<2Q", content)
    assert version == 1
    place = 16 + 32 * count
    headers = np.frombuffer(content, "<u8", 4 * count, 16).reshape(count, 4)
    names, shapes = [], []
    for length in headers[:, 0].tolist():
        name = content[place : place + length]
        assert name.endswith(b"\0")
        names.append(name[:-1].decode())
        place += length
    for rank in headers[:, 2].tolist():
        shape = np.frombuffer(content, "<i4", rank, place)
        shapes.append(tuple(shape.tolist()))
        place += 4 * rank
    place += 8 + struct.unpack_from("<Q", content, place)[0]
    arrays = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers.tolist()):
        assert place % 256 == size % 256 == 0
        count = int(np.prod(shape))
        values = np.frombuffer(content, TYPES[kind], count, place)
        used, multiplier = values.nbytes, None
        if kind == 0x4101:
            (multiplier,) = struct.unpack_from("<f", content, place + used)
            used += 4
        assert used <= size < used + 256
        assert not any(content[place + used : place + size])
        arrays[name] = kind, shape, values, multiplier
        place += size
    assert place == len(content) and len(arrays) == len(names)
    return arrays


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    """A model directory and its export, with a shortlist."""
    path = tmp_path_factory.mktemp("bergamot")
    write_model(path / "model", beam_size=1)
    tokenizer = ModelDirectory(path / "model").load_tokenizer()
    (path / "list").write_text(made_up_shortlist(tokenizer), "utf-8")
    (path / "text").write_text("\n".join(TEXTS[:20]) + "\n", "utf-8")
    output, message = commands.output_and_error(
        "export.bergamot",
        f"--model_dir={path / 'model'}",
        f"--output_dir={path / 'new'}",
        f"--sentences={path / 'text'}",
        f"--shortlist={path / 'list'}",
    )
    assert message is None and str(path / "new") in output
    return path


def test_matrices_are_int8_within_half_a_step(folder):
    directory = ModelDirectory(folder / "model")
    vocabulary = directory.read_vocabulary()
    marian = make_bergamot_model(directory.load_model(), vocabulary)
    stored = parse((folder / "new" / "model.bin").read_bytes())
    matrices = {name for name in stored if stored[name][3] is not None}
    assert matrices == {
        name
        for name in marian.arrays
        if re.fullmatch("Wemb|.*_W[qkvo12]", name)
    }
    for name, array in marian.arrays.items():
        kind, shape, values, multiplier = stored.pop(name)
        assert shape == array.shape
        if name not in matrices:
            np.testing.assert_array_equal(values.reshape(shape), array)
            continue
        values = values.astype(np.float64) / multiplier
        is_embedding = name == "Wemb"
        values = (
            values.reshape(shape)
            if is_embedding
            else values.reshape(shape[::-1]).T
        )
        difference = np.abs(values - array).max()
        assert difference <= 0.501 / multiplier
        assert np.abs(values).max() == pytest.approx(np.abs(array).max())
    _, _, text, _ = stored.pop("special:model.yml")
    options = yaml.safe_load(text.tobytes().rstrip(b"\0"))
    assert options["dim-vocabs"] == [200, 200]
    assert {*stored} == {f"{name}_QuantMultA" for name in {*matrices, "none"}}
    for kind, shape, values, _ in stored.values():
        assert kind == 0x404 and shape == (1, 1) and 0 < values[0] < 1000


class RecordingGraph(MarianGraph):
    """A MarianGraph that records the largest inputs of its products."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.largest = {}

    def _affine(self, inputs, stem, suffix):
        self.largest[f"{stem}_W{suffix}"] = np.abs(inputs).max()
        return super()._affine(inputs, stem, suffix)

    def _normalize(self, values, stem):
        states = super()._normalize(values, stem)
        # Those of the last layer remain.
        self.largest["Wemb"] = self.largest["none"] = np.abs(states).max()
        return states


def test_multipliers_are_of_the_inputs_in_the_graph_of_marian(folder):
    directory = ModelDirectory(folder / "model")
    model = directory.load_model()
    marian = make_bergamot_model(model, directory.read_vocabulary())
    options = yaml.safe_load(marian.options.rstrip(b"\0"))
    graph = RecordingGraph(marian.arrays, options)
    pairs = [([5, 9, 30, 3], [40, 8, 3]), ([77, 3], [12, 13, 14, 3])]
    new_ids = {old: new for new, old in enumerate(marian.ids[1])}
    recorded = []
    for pair in pairs:
        source, target = ([new_ids[i] for i in ids] for ids in pair)
        graph.logits(source, target[:-1])
        recorded.append(dict(graph.largest))
    multipliers = measure_multipliers(model, pairs)
    assert multipliers.keys() == recorded[0].keys()
    for name, multiplier in multipliers.items():
        values = [each[name] for each in recorded]
        expected = 127 / (np.mean(values) + 1.1 * np.std(values))
        assert multiplier == pytest.approx(expected, rel=1e-4)


def test_the_shortlist_has_the_likely_targets(folder):
    content = (folder / "new" / "lex.bin").read_bytes()
    magic, _, first, _, num_offsets, count = struct.unpack_from("<6Q", content)
    assert (magic, first) == (0xF11A48D5013417F5, 2)
    offsets = np.frombuffer(content, "<u8", num_offsets, 48).tolist()
    ids = np.frombuffer(content, "<u4", -1, 48 + 8 * num_offsets).tolist()
    assert len(ids) == count == offsets[-1] and num_offsets == 201
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "new" / "vocab.spm")
    )
    likely = {each: {each} for each in range(200)}
    # The end's list is part of every sentence.
    end = processor.eos_id()
    likely[end].add(processor.unk_id())
    for line in (folder / "list").read_text("utf-8").splitlines():
        target, source, _ = line.split(" ")
        number = end if source == "NULL" else processor.piece_to_id(source)
        likely[number].add(processor.piece_to_id(target))
    for number in range(200):
        row = ids[offsets[number] : offsets[number + 1]]
        assert row == sorted(likely[number])


@pytest.mark.slow
def test_marian_itself_reads_the_shortlist(folder, pytestconfig, tmp_path):
    """It checks offsets, ids and the sum; with another sum it aborts."""
    flags = f"--model_dir={folder / 'model'}", f"--output_dir={tmp_path}/npz"
    message = commands.output_and_error("export.marian", "--npz", *flags)[1]
    assert message is None
    whole, changed = folder / "new" / "lex.bin", tmp_path / "lex.bin"
    content = bytearray(whole.read_bytes())
    content[8] ^= 1
    changed.write_bytes(content)
    ask = pytestconfig.cache, tmp_path / "npz", TEXTS[:9]
    assert len(translate_with_marian(*ask, f"--shortlist {whole} 1")) == 9
    with pytest.raises(AssertionError):
        translate_with_marian(*ask, f"--shortlist {changed} 1")


@pytest.mark.slow
def test_the_engine_translates_text_and_html(pytestconfig, tmp_path):
    train_cipher(tmp_path / "model")
    texts, expected = zip(*cipher.sentences(50, seed=9))
    (tmp_path / "text").write_text("\n".join(texts), "utf-8")
    flags = f"--model_dir={tmp_path / 'model'}", f"--output_dir={tmp_path}/new"
    flags += (f"--sentences={tmp_path / 'text'}",)
    assert commands.output_and_error("export.bergamot", *flags)[1] is None
    ask = pytestconfig.cache, tmp_path / "new"
    found = translate_with_bergamot(*ask, texts, "text")
    assert np.mean(np.array(found) == expected) > 0.9
    pages = [
        "<p>ba <b>do</b> ki</p>",
        "<ul><li>su</li><li><i>ta me</i></li></ul>",
    ]
    assert translate_with_bergamot(*ask, pages, "html") == [
        "<p>yz <b>xj</b> qv</p>",
        "<ul><li>YW</li><li><i>Xz gw</i></li></ul>",
    ]
