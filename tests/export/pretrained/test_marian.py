"""Marian's own directories become the networks that they are."""

import json

import numpy as np
import sentencepiece

from export.model_directory import ModelDirectory
from export.pretrained.marian_reader import read_marian
from export.tokenizers.table_tokenizers import load_tokenizer
from keras_transformer.config import BEGIN_ID
from tests import processes
from tests.export.pretrained import npz_directory
from tests.export.pretrained.marian_graph import MarianGraph

# Options that tie matrices of embeddings, our field, and the arrays.
TIES = [
    ({"tied-embeddings-all": True}, "all", ["Wemb"]),
    (
        {"tied-embeddings-src": True, "tied-embeddings": True},
        "all",
        ["Wemb"],
    ),
    (
        {"tied-embeddings": True},
        "target-softmax",
        ["encoder_Wemb", "decoder_Wemb"],
    ),
    ({}, "none", ["encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"]),
    # Of older versions.
    ({}, "none", ["encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_W"]),
]


def by_name(model):
    return {
        weight.path.partition("/")[2]: weight.numpy()
        for weight in model.weights
    }


def test_weights_come_back(tmp_path):
    for number, (tied, share_embeddings, embeddings) in enumerate(TIES):
        rows = 0 if share_embeddings == "all" else npz_directory.SIZE + 2
        model = npz_directory.model(
            share_embeddings=share_embeddings, source_vocabulary_size=rows
        )
        folder = npz_directory.write(
            tmp_path / str(number),
            npz_directory.arrays_of(model, embeddings),
            npz_directory.OPTIONS | {"tied-embeddings-all": False} | tied,
        )
        found = read_marian(folder)
        assert found.notes == []
        expected, weights = by_name(model), by_name(found.model)
        assert weights.keys() == expected.keys()
        for name, weight in weights.items():
            np.testing.assert_array_equal(weight, expected[name], name)
        architecture = found.model.config.architecture()
        assert architecture == model.config.architecture()


def test_source_and_target_may_share_what_the_output_does_not(tmp_path):
    model = npz_directory.model(share_embeddings="none")
    options = npz_directory.OPTIONS | {
        "tied-embeddings-all": False,
        "tied-embeddings-src": True,
    }
    embeddings = ["Wemb", "decoder_ff_logit_out_Wt"]
    arrays = npz_directory.arrays_of(model, embeddings)
    found = read_marian(npz_directory.write(tmp_path, arrays, options)).model
    for name, same in (
        ("source", "target"),
        ("target", "target"),
        ("output", "output"),
    ):
        weight = getattr(found, f"{name}_embedding").embeddings
        expected = getattr(model, f"{same}_embedding").embeddings
        np.testing.assert_array_equal(weight, expected)


def test_logits_are_those_of_the_graph_of_marian(tmp_path):
    for activation, ours in (("swish", "silu"), ("relu", "relu")):
        arrays = npz_directory.arrays_of(npz_directory.model(activation=ours))
        options = npz_directory.OPTIONS | {
            "transformer-ffn-activation": activation
        }
        folder = npz_directory.write(tmp_path / ours, arrays, options)
        found, graph = read_marian(folder).model, MarianGraph(arrays, options)
        generator = np.random.default_rng(1)
        # Marian's rows; our ids are their places in `ORDER`.
        rows = np.array(npz_directory.ORDER)
        for length in (1, 2, 9):
            source = generator.integers(2, npz_directory.SIZE, length)
            source = np.append(source, 0)
            target = generator.integers(2, npz_directory.SIZE, length + 2)
            logits = found(
                {
                    "source": rows[source][None],
                    "target": np.append(BEGIN_ID, rows[target])[None],
                }
            ).numpy()[0]
            expected = graph.logits(source, target)
            np.testing.assert_allclose(logits[:, rows], expected, atol=3e-4)
            # They take no part in the softmax.
            assert logits[:, npz_directory.NO_ROWS].max() < -1e8


def test_ids_are_those_of_the_table(tmp_path):
    """By piece; SentencePiece's own ids are others."""
    words = npz_directory.table()
    size = len(words)
    hard = ["▁no", "null", "1_0", "~", "'", '"', ": ", "#", "<<", "="]
    words |= {name: size + place for place, name in enumerate(hard)}
    arrays = npz_directory.arrays_of(npz_directory.model())
    for name, axis in (("Wemb", 0), ("decoder_ff_logit_out_b", 1)):
        widths = [(0, 0), (0, 0)]
        widths[axis] = (0, len(hard))
        arrays[name] = np.pad(arrays[name], widths)
    options = npz_directory.OPTIONS | {"dim-vocabs": [len(words)] * 2}
    folder = npz_directory.write(tmp_path, arrays, options, words=words)
    tokenizers = load_tokenizer(read_marian(folder).vocabulary)
    for side in ("source", "target"):
        tokenizer = getattr(tokenizers, side)
        assert tokenizer.vocabulary_size == len(words) + 2
        # Behind our four follow the others, without end and unknown piece.
        for name, number in words.items():
            if number > 1:
                assert tokenizer.id_to_piece(number + 2) == name
        processor = sentencepiece.SentencePieceProcessor(
            model_proto=npz_directory.spm(side)
        )
        texts = npz_directory.SENTENCES[side][:20]
        for text, ids in zip(texts, tokenizer.encode(texts)):
            rows = [words[piece] for piece in processor.EncodeAsPieces(text)]
            assert ids.tolist() == [row + 2 for row in rows] + [3]


def test_decoder_yml_gives_the_search(tmp_path):
    arrays = npz_directory.arrays_of(npz_directory.model())
    asked = {"normalize": 0.6, "word-penalty": 0.5, "max-length-factor": 2}
    decoder = npz_directory.DECODER | asked
    found = read_marian(npz_directory.write(tmp_path, arrays, decoder=decoder))
    config = found.model.config
    assert (config.beam_size, config.alpha) == (3, 0.6)
    assert (config.length_penalty, config.stop) == ("power", "k_finished")
    # Twice as long up to 128 pieces.
    assert config.max_output_extra == 128
    (note,) = found.notes
    assert "word-penalty" in note


def test_a_table_may_lack_pieces(tmp_path):
    """PyYAML of OPUS-MT's scripts keeps one of two equal ones."""
    words = {
        name: number
        for name, number in npz_directory.table().items()
        if number not in (5, 9)
    }
    words[""] = 5
    arrays = npz_directory.arrays_of(npz_directory.model())
    found = read_marian(npz_directory.write(tmp_path, arrays, words=words))
    (note,) = found.notes
    assert f"no piece of 2 of the model's {npz_directory.SIZE} ids" in note
    assert found.model.config.vocabulary_size == npz_directory.SIZE + 2


def test_vocabularies_may_be_lines(tmp_path):
    model = npz_directory.model(
        share_embeddings="target-softmax",
        source_vocabulary_size=npz_directory.SIZE + 2,
    )
    tied = {"tied-embeddings-all": False, "tied-embeddings": True}
    folder = npz_directory.write(
        tmp_path,
        npz_directory.arrays_of(model, ["encoder_Wemb", "decoder_Wemb"]),
        npz_directory.OPTIONS | tied,
        npz_directory.DECODER | {"vocabs": ["/of/old/a.vocab", "b.vocab"]},
    )
    lines = "".join(f"{piece}\n" for piece in npz_directory.table())
    for name in ("a.vocab", "b.vocab"):
        (folder / name).write_text(lines, "utf-8")
    found = read_marian(folder)
    assert found.notes == []
    assert by_name(found.model).keys() == by_name(model).keys()


def test_the_command_makes_a_model_directory(tmp_path):
    model = npz_directory.model()
    folder = npz_directory.write(
        tmp_path / "marian", npz_directory.arrays_of(model)
    )
    path = tmp_path / "imported"
    done = processes.run(
        {"module": "export.import_marian"},
        [f"--npz={folder}", f"--model_dir={path}"],
    )
    assert done.code == 0, done.err
    assert "2 + 1 layers" in done.out
    directory = ModelDirectory(path)
    weights = by_name(directory.load_model())
    for name, weight in by_name(model).items():
        np.testing.assert_array_equal(weights[name], weight, name)
    assert json.loads(directory.config_path.read_text())["beam_size"] == 3
    assert directory.load_tokenizer().source.vocabulary_size > 100
