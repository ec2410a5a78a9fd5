"""Marian's own directories come in as the networks they are."""

import json

import numpy as np
import pytest
import sentencepiece

from export.model_directory import ModelDirectory
from export.pretrained.marian_npz import read_marian
from export.tokenizers.table_tokenizers import load_tokenizer
from keras_transformer.config import BEGIN_ID
from tests import processes
from tests.export.pretrained import npz_directory
from tests.export.pretrained.marian_graph import MarianGraph

# What ties which matrices of embeddings: options, ours, and arrays.
TIES = {
    "all": (
        {"tied-embeddings-all": True},
        "all",
        ["Wemb"],
    ),
    "src, and output": (
        {"tied-embeddings-src": True, "tied-embeddings": True},
        "all",
        ["Wemb"],
    ),
    "output": (
        {"tied-embeddings": True},
        "target-softmax",
        ["encoder_Wemb", "decoder_Wemb"],
    ),
    "none": (
        {},
        "none",
        ["encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"],
    ),
    "none, of older versions": (
        {},
        "none",
        ["encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_W"],
    ),
}


def by_name(model):
    return {
        weight.path.partition("/")[2]: weight.numpy()
        for weight in model.weights
    }


@pytest.mark.parametrize("ties", TIES)
def test_weights_come_back(ties, tmp_path):
    tied, share_embeddings, embeddings = TIES[ties]
    model = npz_directory.model(
        share_embeddings=share_embeddings,
        source_vocabulary_size=0
        if share_embeddings == "all"
        else npz_directory.SIZE + 2,
    )
    options = npz_directory.OPTIONS | {"tied-embeddings-all": False} | tied
    found = read_marian(
        npz_directory.write(
            tmp_path, npz_directory.arrays_of(model, embeddings), options
        )
    )
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
    expected = model.target_embedding.embeddings.numpy()
    for name in ("source", "target"):
        weight = getattr(found, f"{name}_embedding").embeddings
        np.testing.assert_array_equal(weight.numpy(), expected)
    np.testing.assert_array_equal(
        found.output_embedding.embeddings.numpy(),
        model.output_embedding.embeddings.numpy(),
    )


@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_logits_are_those_of_marian_s_graph(activation, tmp_path):
    ours = {"swish": "silu", "relu": "relu"}[activation]
    arrays = npz_directory.arrays_of(npz_directory.model(activation=ours))
    options = npz_directory.OPTIONS | {"transformer-ffn-activation": activation}
    found = read_marian(npz_directory.write(tmp_path, arrays, options)).model
    graph = MarianGraph(arrays, options)
    generator = np.random.default_rng(1)
    # Theirs of a piece; ours are their places in `ORDER`.
    rows = np.array(npz_directory.ORDER)
    for length in (1, 2, 9):
        source = np.append(generator.integers(2, npz_directory.SIZE, length), 0)
        target = generator.integers(2, npz_directory.SIZE, length + 2)
        logits = found(
            {
                "source": rows[source][None],
                "target": np.append(BEGIN_ID, rows[target])[None],
            }
        ).numpy()[0]
        np.testing.assert_allclose(
            logits[:, rows], graph.logits(source, target), atol=3e-4
        )
        # They take no part in the softmax.
        assert logits[:, npz_directory.NO_ROWS].max() < -1e8


def test_ids_are_those_of_the_table(tmp_path):
    """Which is by piece; SentencePiece's own ids are others."""
    words = npz_directory.table()
    size = len(words)
    hard = ["▁no", "null", "1_0", "~", "'", '"', ": ", "#", "<<", "="]
    words |= {name: size + place for place, name in enumerate(hard)}
    arrays = widened(npz_directory.arrays_of(npz_directory.model()), len(hard))
    options = npz_directory.OPTIONS | {"dim-vocabs": [len(words)] * 2}
    found = read_marian(
        npz_directory.write(tmp_path, arrays, options, words=words)
    )
    tokenizers = load_tokenizer(found.vocabulary)
    for side in ("source", "target"):
        tokenizer = getattr(tokenizers, side)
        assert tokenizer.vocabulary_size == len(words) + 2
        # Behind our four stand theirs, their end and unknown piece left out.
        for name, number in words.items():
            if number > 1:
                assert tokenizer.id_to_piece(number + 2) == name
        cut = sentencepiece.SentencePieceProcessor(
            model_proto=npz_directory.spm(side)
        )
        texts = npz_directory.SENTENCES[side][:20]
        for text, ids in zip(texts, tokenizer.encode(texts)):
            theirs = [words[piece] for piece in cut.EncodeAsPieces(text)]
            assert ids.tolist() == [number + 2 for number in theirs] + [3]


def widened(arrays, count):
    """With rows more of a vocabulary."""
    bias = "decoder_ff_logit_out_b"
    return arrays | {
        "Wemb": np.pad(arrays["Wemb"], [(0, count), (0, 0)]),
        bias: np.pad(arrays[bias], [(0, 0), (0, count)]),
    }


def test_decoder_yml_says_how_is_searched(tmp_path):
    arrays = npz_directory.arrays_of(npz_directory.model())
    asked = {"normalize": 0.6, "word-penalty": 0.5, "max-length-factor": 2}
    decoder = npz_directory.DECODER | asked
    found = read_marian(npz_directory.write(tmp_path, arrays, decoder=decoder))
    config = found.model.config
    assert (config.beam_size, config.alpha) == (3, 0.6)
    assert (config.length_penalty, config.stop) == ("power", "finished")
    # Twice as long up to 128 pieces.
    assert config.max_output_extra == 128
    assert found.notes == [
        "word-penalty of decoder.yml is not done by our search"
    ]


def test_a_table_may_lack_pieces(tmp_path):
    """PyYAML of OPUS-MT's scripts keeps one of two equal ones."""
    words = npz_directory.table()
    lacking = [name for name, number in words.items() if number in (5, 9)]
    for name in lacking:
        del words[name]
    words[""] = 5
    arrays = npz_directory.arrays_of(npz_directory.model())
    found = read_marian(npz_directory.write(tmp_path, arrays, words=words))
    assert found.notes == [
        "opus.vocab.yml has no piece of 2 of the model's "
        f"{npz_directory.SIZE} ids"
    ]
    assert found.model.config.vocabulary_size == npz_directory.SIZE + 2


def test_vocabularies_may_be_lines(tmp_path):
    model = npz_directory.model(
        share_embeddings="target-softmax",
        source_vocabulary_size=npz_directory.SIZE + 2,
    )
    embeddings = ["encoder_Wemb", "decoder_Wemb"]
    folder = npz_directory.write(
        tmp_path,
        npz_directory.arrays_of(model, embeddings),
        npz_directory.OPTIONS
        | {"tied-embeddings-all": False, "tied-embeddings": True},
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
