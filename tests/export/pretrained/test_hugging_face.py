"""Models of Hugging Face come in with their answers, and go out again.

The answers were recorded from Hugging Face's own code.
"""

import dataclasses
import json

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.ctranslate2.ctranslate2_model import save_ctranslate2
from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.hugging_face_writer import write_hugging_face
from export.pretrained.weights_file import WeightsFile
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.translators.batches import pad_ids
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import many_languages, tiny

# Theirs may have 12 ids more than the source and its end; only ours count the
# end of one of the two.
_EXTRA = 13


def test_ids_match(recorded):
    tokenizer, answers = recorded.tokenizer, recorded.answers
    ours = tokenizer.source.encode([each["text"] for each in answers])
    their_ids = recorded.their_ids("source")
    assert [their_ids[ids].tolist() for ids in ours] == [
        each["ids"] for each in answers
    ]
    (tag,) = np.flatnonzero(their_ids == recorded.table("source")[">>fra<<"])
    plain, tagged, spaced, inside, quoted = tokenizer.source.encode(
        ["ka lo", ">>fra<< ka lo", "  >>fra<<ka lo", "ka >>fra<<", ">>ka lo<<"]
    )
    assert tagged.tolist() == spaced.tolist() == [tag, *plain]
    assert tag not in inside and tag not in quoted


def test_logits_and_scores_match(recorded):
    their_ids = recorded.their_ids("target")
    our_ids = np.argsort(their_ids)[1:]
    translator = Translator.from_model(
        recorded.pretrained.model, recorded.tokenizer
    )
    has_row = their_ids >= 0
    answers = recorded.answers[:20]
    texts = [each["text"] for each in answers]
    source = pad_ids(recorded.tokenizer.source.encode(texts))
    target = pad_ids([our_ids[each["target"]] for each in answers])
    given = np.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    logits = recorded.pretrained.model({"source": source, "target": given})
    scores = kt.score_ids(translator.model, source, target).numpy()
    for ours, score, answer in zip(np.asarray(logits), scores, answers):
        ours = ours[len(answer["target"]) - 1]
        theirs = np.array(answer["logits"])[their_ids[has_row]]
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours[has_row], theirs, atol=1e-5 * scale)
        assert (ours[~has_row] < -1e8).all()
        np.testing.assert_allclose(score, answer["log_prob"], rtol=1e-5)


@pytest.mark.parametrize(
    ("recorded", "beams"),
    [
        ("separate", 4),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [("separate", 1), ("shared", 6), ("untied", 4)]
        ),
    ],
    indirect=["recorded"],
)
def test_searches_match(recorded, beams, eager):
    config = recorded.pretrained.model.config
    assert (config.beam_size, config.alpha) == (4, 1.0)
    assert config.length_penalty == "power"
    assert config.stop_criterion == "heuristic"
    assert config.layer_norm_epsilon == 1e-5
    assert recorded.pretrained.languages == ("eng", "fra")
    translator = Translator.from_model(
        recorded.pretrained.model,
        recorded.tokenizer,
        beam_size=beams,
        max_extra_tokens=_EXTRA,
        # Theirs may be empty.
        min_length=0,
    )
    # At the longest length ours must end, and theirs is truncated.
    ended = [
        answer
        for answer in recorded.answers
        if all(
            each["ids"][-1:] == [0] for each in answer["hypotheses"][str(beams)]
        )
    ]
    assert len(ended) >= 40
    ours = translator.n_best([each["text"] for each in ended], beams)
    for n_best, answer in zip(ours, ended):
        theirs = answer["hypotheses"][str(beams)]
        our_texts = [each.text.strip() for each in n_best]
        their_texts = [each["text"].strip() for each in theirs]
        if beams == 1:
            assert our_texts == their_texts
            continue
        our_scores = [each.score for each in n_best]
        their_scores = [each["score"] for each in theirs]
        np.testing.assert_allclose(our_scores, their_scores, rtol=1e-4)
        assert _rank(our_texts, our_scores) == _rank(their_texts, their_scores)


def _rank(texts, scores):
    """Groups texts of equal scores, each group in alphabetical order."""
    groups, last = [], None
    for text, score in zip(texts, scores):
        if last is None or abs(score - last) > 1e-4:
            groups.append([])
        groups[-1].append(text)
        last = score
    return [sorted(group) for group in groups]


def test_a_file_of_torch_holds_the_same(marian_folder):
    folder = marian_folder / "shared"
    one = WeightsFile(folder / "model.safetensors")
    other = WeightsFile(folder / "pytorch_model.bin")
    assert one.names <= other.names
    for name in one.names:
        shape = one.shape(name)
        np.testing.assert_array_equal(
            one.read(name, shape), other.read(name, shape)
        )


BASE = {"norm": "post", "num_layers": 1, "share_embeddings": "all"}
# What no format holds, and what a MarianMTModel does not hold.
WORDS = {"first_source_word_id": 9, "first_target_word_id": 9}
REFUSED = [
    {"attention_window": 3},
    {"positions": "words", **WORDS},
    {"positions": "next-word", **WORDS},
    {"d_k": 4},
    {"d_v": 4},
]
MARIAN_REFUSED = [
    {"norm": "pre"},
    {"attention_bias": False},
    {"positions": "learned"},
    {"sinusoid_rates": "marian"},
]


def marian(model, path):
    path.mkdir()
    write_hugging_face(model, made_up_text.vocabulary(), ("en", "fr"), path)


def ctranslate2(model, path):
    pytest.importorskip("ctranslate2")
    save_ctranslate2(model, made_up_text.vocabulary(), path)


def made_up_config(default, **changes):
    """Returns the configuration of a class with one more field."""
    metadata = {"validate": lambda _, value: value}
    field = dataclasses.field(default=default, metadata=metadata)
    made_up = dataclasses.make_dataclass(
        "MadeUpConfig",
        [("made_up", type(default), field)],
        bases=(kt.TransformerConfig,),
        frozen=True,
        kw_only=True,
    )
    return made_up(**tiny.CONFIG | BASE | changes)


@pytest.mark.parametrize(
    "write, others", [(marian, MARIAN_REFUSED), (ctranslate2, [])]
)
def test_other_fields_and_values_are_refused(write, others, tmp_path):
    """Also those that are made up, unless they have the default."""
    model = tiny.model(**BASE)
    for changes in [*REFUSED, *others]:
        model.config = tiny.config(**BASE | changes)
        with pytest.raises(InputError) as raised:
            write(model, tmp_path / str(changes))
        words = {*changes, *map(str, changes.values())}
        assert any(word in str(raised.value) for word in words)
    for number, default in enumerate((0, "", False)):
        model.config = made_up_config(default)
        write(model, tmp_path / f"default{number}")
        model.config = made_up_config(default, made_up=type(default)(1))
        with pytest.raises(InputError, match="made_up=(1|True)"):
            write(model, tmp_path / f"other{number}")
    for name in ("activation", "share_embeddings", "stop_criterion"):
        model.config = tiny.config(**BASE)
        object.__setattr__(model.config, name, "made-up")
        with pytest.raises(InputError, match=f"{name}=made-up"):
            write(model, tmp_path / name)


def round_trip(model, vocabulary, folder):
    folder.mkdir()
    write_hugging_face(model, vocabulary, ("en", "fr"), folder)
    return read_hugging_face(folder)


def assert_same_weights(one, other):
    assert len(one.weights) == len(other.weights)
    for ours, theirs in zip(one.weights, other.weights):
        assert ours.path.split("/")[1:] == theirs.path.split("/")[1:]
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "changes",
    [
        {"share_embeddings": "all", "activation": "silu"},
        {
            "share_embeddings": "target-softmax",
            "num_decoder_layers": 1,
            "source_vocabulary_size": 200,
        },
        {
            "share_embeddings": "none",
            "output_bias": True,
            "source_vocabulary_size": 200,
        },
    ],
    ids=lambda changes: changes["share_embeddings"],
)
def test_a_written_model_is_read_back(changes, tmp_path):
    """Its weights, to the bit, its search and its vocabulary."""
    model = tiny.model(
        norm="post", num_layers=2, layer_norm_epsilon=1e-6, **changes
    )
    vocabulary = made_up_text.vocabulary()
    back = round_trip(model, vocabulary, tmp_path / "hf")
    assert_same_weights(model, back.model)
    config, expected = back.model.config, model.config
    assert config.architecture() == expected.architecture()
    search = expected.beam_size, expected.alpha
    assert (config.beam_size, config.alpha) == search
    assert back.languages == ("en", "fr")
    tokenizer = load_tokenizer(vocabulary)
    again = load_tokenizer(back.vocabulary)
    texts = made_up_text.sentences(20)
    for one, other in zip(tokenizer.encode(texts), again.source.encode(texts)):
        np.testing.assert_array_equal(one, other)
    numbers = np.arange(4, 200)[None]
    assert tokenizer.decode(numbers) == again.target.decode(numbers)
    if changes["share_embeddings"] == "all":
        table = json.loads((tmp_path / "hf" / "vocab.json").read_text("utf-8"))
        assert sorted(table.values()) == list(range(200))
        special = table["</s>"], table["<unk>"], table["<pad>"]
        assert special == (0, 1, 199)


def test_tags_are_those_of_marian(tmp_path):
    """The format has one only."""
    model = tiny.model(
        norm="post", layer_norm_epsilon=1e-6, vocabulary_size=200
    )
    vocabulary = many_languages.vocabulary("target")
    back = round_trip(model, vocabulary, tmp_path / "hf")
    table = json.loads((tmp_path / "hf" / "vocab.json").read_text("utf-8"))
    assert {f">>{code}<<" for code in many_languages.CODES} <= table.keys()
    tokenizer = load_tokenizer(vocabulary).source
    again = load_tokenizer(back.vocabulary)
    assert again.source.languages == many_languages.CODES
    for text in (">>deu_Latn<< ba ka", ">>fra_Latn<<ba ka", "ba"):
        one, other = tokenizer.encode([text])[0], again.source.encode([text])[0]
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match="both"):
        round_trip(model, many_languages.vocabulary("pair"), tmp_path / "no")


def test_an_imported_model_is_read_back(recorded, tmp_path):
    pretrained = recorded.pretrained
    back = round_trip(pretrained.model, pretrained.vocabulary, tmp_path / "hf")
    assert_same_weights(pretrained.model, back.model)
    assert back.model.config == pretrained.model.config
    if recorded.folder.name == "shared":
        # Without a new row.
        table = recorded._replace(folder=tmp_path / "hf").table("source")
        assert table.keys() == recorded.table("source").keys()
