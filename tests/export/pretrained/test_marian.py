"""Marian's own directories are read as the networks that they are."""

import numpy as np
import sentencepiece

from export.pretrained.marian_reader import read_marian
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
        pretrained = read_marian(folder)
        assert pretrained.notes == []
        weights = pretrained.model.weights
        for one, other in zip(model.weights, weights, strict=True):
            np.testing.assert_array_equal(one, other, one.path)
        architecture = pretrained.model.config.architecture()
        assert architecture == model.config.architecture()


def test_logits_match_the_graph_of_marian(tmp_path):
    for activation, ours in (("swish", "silu"), ("relu", "relu")):
        arrays = arrays_of(marian_directory.model(activation=ours))
        options = OPTIONS | {"transformer-ffn-activation": activation}
        model = read_marian(write(tmp_path / ours, arrays, options)).model
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
    tokenizers = load_tokenizer(read_marian(folder).vocabulary)
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
    pretrained = read_marian(folder)
    config = pretrained.model.config
    assert config.vocabulary_size == SIZE + 2
    assert (config.beam_size, config.alpha) == (3, 0.6)
    assert config.length_penalty == "power"
    assert config.stop_criterion == "k_finished"
    # Twice as long up to 128 pieces.
    assert config.max_extra_tokens == 128
    unnamed, allow_unk, word_penalty = dict.fromkeys(pretrained.notes)
    assert f"no piece of 2 of the model's {SIZE} ids" in unnamed
    assert "allow-unk" in allow_unk and "word-penalty" in word_penalty
