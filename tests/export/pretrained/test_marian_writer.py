"""Models written in Marian's format compute the same, there and read back."""

import numpy as np
import pytest
import sentencepiece
import yaml

import keras_transformer as kt
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.pretrained.marian_writer import make_marian_model
from export.tokenizers.python_tokenizers import (
    add_kind,
    join_vocabularies,
    load_python_tokenizers,
)
from export.translators.batches import pad_ids
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.export import commands
from tests.export.pretrained.marian_engines import (
    TEXTS,
    train_cipher,
    translate_with_marian,
    write_model,
)
from tests.export.pretrained.marian_graph import MarianGraph
from tests.trainers import cipher

NPZ = "export.marian", "--npz"
BERGAMOT = ("export.bergamot",)
# With other embeddings also other vocabularies, of sizes that are no multiple
# of 8.
MODELS = {
    "all": {},
    "target-softmax": {
        "share_embeddings": "target-softmax",
        "source_vocabulary_size": 230,
        "activation": "silu",
    },
    "none": {
        "share_embeddings": "none",
        "vocabulary_size": 203,
        "alignment_layer": 1,
    },
}


def export(path, folder):
    flags = f"--model_dir={path}", f"--output_dir={folder}"
    output, message = commands.output_and_error(*NPZ, *flags)
    assert message is None and str(folder / "decoder.yml") in output


@pytest.mark.parametrize(
    "share",
    ["all", pytest.param("target-softmax", marks=pytest.mark.slow), "none"],
)
def test_it_is_read_back_with_the_same_hypotheses(tmp_path, share):
    model = write_model(tmp_path / "model", **MODELS[share])
    export(tmp_path / "model", tmp_path / "npz")
    flags = [f"--npz={tmp_path / 'npz'}", f"--model_dir={tmp_path / 'back'}"]
    assert commands.output_and_error("export.import_marian", *flags)[1] is None
    back = ModelDirectory(tmp_path / "back")
    config, original = back.read_config(), model.config
    for name in ("beam_size", "alpha", "activation", "share_embeddings"):
        assert getattr(config, name) == getattr(original, name)
    assert config.alignment_attention == (1, 1)
    assert config.max_extra_tokens == 256
    extra = original.max_extra_tokens
    back.write_config(config.replace(max_extra_tokens=extra))
    tokenizers = [
        load_python_tokenizers(
            ModelDirectory(tmp_path / name).read_vocabulary()
        )
        for name in ("model", "back")
    ]
    sources = [each.source.encode(TEXTS) for each in tokenizers]
    for one, other in zip(*sources, strict=True):
        np.testing.assert_array_equal(one, other)
    source = pad_ids(sources[0][:16])
    ours, theirs = (
        kt.translate_ids(each, source) for each in (model, back.load_model())
    )
    np.testing.assert_array_equal(ours.tokens, theirs.tokens)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)
    assert len(np.unique(ours.tokens)) > 5
    texts = [each.target.decode(ours.tokens[:, 0]) for each in tokenizers]
    assert texts[0] == texts[1]
    # Once more: there is nothing left to change.
    export(tmp_path / "back", tmp_path / "again")
    first, again = (
        np.load(tmp_path / name / "model.npz") for name in ("npz", "again")
    )
    assert {*first.files} == {*again.files}
    for name in first.files:
        np.testing.assert_array_equal(first[name], again[name], name)
        # As Marian reads it; np.load keeps the order of the axes.
        assert first[name].flags.c_contiguous, name


def test_the_arrays_are_those_of_the_graph_of_marian(tmp_path):
    for activation in ("relu", "silu"):
        # Without any bias of the output.
        changes = {"activation": activation, "output_bias": False}
        model = write_model(tmp_path / activation, **changes)
        generator = np.random.default_rng(2)
        source = [*generator.integers(4, 200, 7), 3]
        target = generator.integers(4, 200, 5)
        given = np.append(BEGIN_ID, target)[None]
        ours = (
            model({"source": np.array([source]), "target": given})
            .numpy()[0]
            .astype(np.float64)
        )
        vocabulary = made_up_text.vocabulary()
        marian = make_marian_model(model, vocabulary)
        options = yaml.safe_load(marian.options.rstrip(b"\0"))
        graph = MarianGraph(marian.arrays, options)
        rows = np.array(marian.ids[1])
        new_ids = {old: new for new, old in enumerate(rows.tolist())}
        logits = graph.logits(
            [new_ids[each] for each in source],
            [new_ids[each] for each in target],
        )
        assert logits[:, 198:].max() < -1e8
        differences = logits[:, :198] - ours[:, rows]
        spread = differences.max(axis=1) - differences.min(axis=1)
        assert spread.max() < 1e-3 < np.abs(differences).max()
        # The original's text has the same pieces by another id.
        ids = [
            sentencepiece.SentencePieceProcessor(model_proto=each)
            for each in (vocabulary, marian.vocabularies["vocab.spm"])
        ]
        assert [ids[1].eos_id(), ids[1].unk_id()] == [0, 1]
        assert ids[1].vocab_size() == 200
        for text in [*TEXTS, "語 \U0001f600 x"]:
            old, new = (each.encode(text) for each in ids)
            assert [new_ids[each] for each in old] == new
            assert ids[1].decode(new) == ids[0].decode(old)


# Fields that neither format has, and those of the engine's int8 alone.
REFUSED = [
    {"norm": "pre"},
    {"sinusoid_rates": "paper"},
    {"sinusoid_rates": "paper", "positions": "learned"},
    {"d_k": 8},
    {"activation": "gelu"},
    {"layer_norm_epsilon": 1e-5},
]
REFUSED_BY_BERGAMOT = [
    {"d_model": 48, "d_k": 12, "d_v": 12},
    {"d_ff": 96},
    {"share_embeddings": "none"},
    {"share_embeddings": "target-softmax", "source_vocabulary_size": 230},
]
NAMES = {"d_k": "d_k and d_v", "source_vocabulary_size": "share_embeddings"}


@pytest.mark.parametrize("changes", REFUSED + REFUSED_BY_BERGAMOT, ids=str)
def test_other_models_are_refused_by_name(tmp_path, changes):
    name, value = [*changes.items()][-1 if "positions" in changes else 0]
    write_model(tmp_path / "model", num_layers=1, **changes)
    (tmp_path / "text").write_text("ba\n")
    files = f"--model_dir={tmp_path / 'model'}", f"--output_dir={tmp_path}/new"
    programs = [(*BERGAMOT, f"--sentences={tmp_path / 'text'}")]
    if changes in REFUSED:
        programs.append(NPZ)
    for module, *flags in programs:
        code, lines, errors = commands.run(module, None, [], *files, *flags)
        assert (code, lines, len(errors)) == (2, [], 1)
        assert NAMES.get(name, f"{name}={value}") in errors[0]
        assert {each.name for each in tmp_path.iterdir()} == {"model", "text"}


def test_other_vocabularies_and_used_folders_are_refused(tmp_path):
    path, vocabulary = tmp_path / "model", made_up_text.vocabulary()
    write_model(path)
    files = [f"--model_dir={path}", f"--output_dir={tmp_path / 'new'}"]
    for other, word in (
        (add_kind(vocabulary, "opus-mt"), "normalization"),
        (join_vocabularies(made_up_text.vocabulary(seed=2), vocabulary), "two"),
    ):
        (path / "vocabulary.model").write_bytes(other)
        code, lines, errors = commands.run(*NPZ[:1], None, [], *NPZ[1:], *files)
        assert (code, lines) == (2, []) and word in errors[0]
    (tmp_path / "new").mkdir()
    code, _, errors = commands.run(*NPZ[:1], None, [], *NPZ[1:], *files)
    assert code == 2 and "--output_dir" in errors[0]
    assert not [*(tmp_path / "new").iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("share", MODELS)
def test_marian_itself_generates_the_same(tmp_path, pytestconfig, share):
    changes = {"beam_size": 1, "max_extra_tokens": 20, **MODELS[share]}
    write_model(tmp_path / "model", **changes)
    export(tmp_path / "model", tmp_path / "npz")
    ours = load_translator(tmp_path / "model").translate(TEXTS)
    theirs = translate_with_marian(pytestconfig.cache, tmp_path / "npz", TEXTS)
    for one, other in zip(ours, theirs, strict=True):
        # Random weights generate no end: each is cut off at its own limit.
        short, long = sorted([one.text, other], key=len)
        assert long.startswith(short) and len(short) > 5


@pytest.mark.slow
def test_marian_itself_translates_the_same(tmp_path, pytestconfig):
    train_cipher(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "npz")
    texts, expected = zip(*cipher.sentences(50, seed=9))
    ours = load_translator(tmp_path / "model").translate(texts)
    theirs = translate_with_marian(pytestconfig.cache, tmp_path / "npz", texts)
    assert [each.text for each in ours] == theirs
    assert np.mean(np.array(theirs) == expected) > 0.9
