"""M2M-100 and NLLB-200 come in with the answers of Hugging Face's code.

See tests/data/m2m/README.md.
"""

import json
import pathlib
import shutil
import typing

import numpy as np
import pytest
import sentencepiece

import keras_transformer as kt
from export.common.errors import InputError
from export.loading import load_translator
from export.pretrained.fast_tokenizer import read_fast_tokenizer
from export.pretrained.m2m_reader import read_m2m
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import pad_ids
from export.translators.output_vocabulary_files import load_output_vocabulary
from export.translators.translator import Translator
from keras_transformer.config import BEGIN_ID, END_ID
from tests.export import commands

# Of the oracle, beyond the token of the language.
NEW_TOKENS = 14
CODES = {"nllb": ("eng_Latn", "fra_Latn"), "m2m": ("en", "de")}


class Recorded(typing.NamedTuple):
    folder: pathlib.Path
    pretrained: typing.Any
    tokenizer: typing.Any
    answers: list
    # The id of ours for each of theirs.
    our_ids: np.ndarray

    def texts(self, answers):
        return [
            f">>{each['source']}<<>>{each['target']}<<{each['text']}"
            for each in answers
        ]


def their_pieces(folder):
    """Their pieces by id, from the files."""
    if (folder / "tokenizer.json").exists():
        content = json.loads((folder / "tokenizer.json").read_text())
        vocab = content["model"]["vocab"]
    else:
        vocab = json.loads((folder / "vocab.json").read_text())
        for code in ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]:
            vocab[f">>{code}<<"] = len(vocab)
    return {i: piece for piece, i in vocab.items()}


@pytest.fixture(scope="session", params=["nllb", "m2m"])
def recorded(request, m2m_folder):
    folder = m2m_folder / request.param
    pretrained = read_m2m(folder)
    tokenizer = load_tokenizer(pretrained.vocabulary)
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.target.proto
    )
    pieces = their_pieces(folder)
    our_ids = np.zeros(max(pieces) + 1, np.int32)
    names = {"<s>": "<s>_"}
    for i, piece in pieces.items():
        name = f">>{piece}<<" if piece in tokenizer.source.languages else piece
        our_ids[i] = processor.piece_to_id(names.get(name, name))
    assert len(set(our_ids.tolist())) == len(our_ids)
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    return Recorded(folder, pretrained, tokenizer, answers, our_ids)


def test_ids_match(recorded):
    texts = recorded.texts(recorded.answers)
    ids = recorded.tokenizer.source.encode(texts)
    python, _ = load_python_tokenizers(recorded.pretrained.vocabulary)
    for text, ours, answer in zip(texts, ids, recorded.answers, strict=True):
        assert ours[1:].tolist() == recorded.our_ids[answer["ids"]].tolist()
        assert ours.tolist() == python.ids(text)
    assert recorded.pretrained.languages == CODES[recorded.folder.name]


def test_logits_and_scores_match(recorded):
    translator = Translator.from_model(
        recorded.pretrained.model, recorded.tokenizer
    )
    answers = recorded.answers
    source = pad_ids(recorded.tokenizer.source.encode(recorded.texts(answers)))
    target = pad_ids([recorded.our_ids[each["given"]] for each in answers])
    begin = np.full_like(target[:, :1], BEGIN_ID)
    given = np.concatenate([begin, target[:, :-1]], axis=1)
    logits = translator.model({"source": source, "target": given})
    scores = kt.score_ids(translator.model, source, target).numpy()
    for ours, score, answer in zip(np.asarray(logits), scores, answers):
        theirs = np.array(answer["logits"])[: len(recorded.our_ids)]
        np.testing.assert_allclose(
            ours[-1][recorded.our_ids],
            theirs,
            atol=2e-5 * np.abs(theirs).max(),
        )
        assert ours[-1][BEGIN_ID] < -1e8
        np.testing.assert_allclose(score, answer["log_prob"], rtol=1e-5)


@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_searches_match(recorded, beams, eager):
    config = recorded.pretrained.model.config
    assert (config.beam_size, config.alpha) == (4, 1.0)
    translator = Translator.from_model(
        recorded.pretrained.model,
        recorded.tokenizer,
        beam_size=beams,
        max_extra_tokens=NEW_TOKENS,
        min_length=0,
    )
    # At the longest length ours must end, and theirs is truncated.
    ended = [
        answer
        for answer in recorded.answers
        if all(
            each["ids"][-1] == 2 and len(each["ids"]) > 2
            for each in answer["hypotheses"][str(beams)]
        )
    ]
    assert len(ended) >= 6
    ours = translator.n_best(recorded.texts(ended), beams)
    for n_best, answer in zip(ours, ended):
        theirs = answer["hypotheses"][str(beams)]
        tag = f"__{answer['target']}__"
        assert [each.text.strip() for each in n_best] == [
            each["text"].removeprefix(tag).strip() for each in theirs
        ]
        if beams > 1:
            np.testing.assert_allclose(
                [each.score for each in n_best],
                [each["score"] for each in theirs],
                rtol=1e-4,
            )


def test_a_slow_tokenizer_is_the_same(m2m_folder, tmp_path):
    """The SentencePiece model, from which the fast one was converted."""
    fast = read_m2m(m2m_folder / "nllb")
    folder = tmp_path / "slow"
    shutil.copytree(m2m_folder / "nllb", folder)
    (folder / "tokenizer.json").unlink()
    shutil.copy(m2m_folder / "m2m" / "sentencepiece.bpe.model", folder)
    slow = read_m2m(folder)
    for one, other in zip(fast.model.weights, slow.model.weights):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    texts = [answer["text"] for answer in answers]
    texts += [f" {text} " for text in texts] + ["a\u2028b", "\t", "x" * 99]
    ids = [
        [*map(load_python_tokenizers(each.vocabulary)[0].ids, texts)]
        for each in (fast, slow)
    ]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("file", "field", "value", "part"),
    [
        ("config.json", "model_type", "mbart", "m2m_100"),
        ("config.json", "scale_embedding", False, "scale_embedding"),
        ("config.json", "decoder_start_token_id", 0, "decoder_start_token_id"),
        ("config.json", "pad_token_id", 0, "pad_token_id"),
        ("config.json", "colour", 1, "colour"),
        ("tokenizer_config.json", "legacy_behaviour", True, "legacy"),
        ("tokenizer.json", "model", {"type": "Unigram"}, "tokenizer.json"),
        ("tokenizer.json", "normalizer", {"type": "Lowercase"}, "Lowercase"),
        (
            "tokenizer.json",
            "pre_tokenizer",
            {"type": "Metaspace", "prepend_scheme": "never"},
            "prepend_scheme",
        ),
        ("tokenizer.json", "model", [], "tokenizer.json"),
    ],
)
def test_other_networks_are_refused(
    m2m_folder, tmp_path, file, field, value, part
):
    folder = tmp_path / "hf"
    shutil.copytree(m2m_folder / "nllb", folder)
    fields = json.loads((folder / file).read_text("utf-8"))
    fields[field] = value
    (folder / file).write_text(json.dumps(fields))
    with pytest.raises(InputError, match=part):
        read_m2m(folder)


def test_fast_tokenizers_that_are_no_bpe_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="NLLB"):
        read_fast_tokenizer(path)


def test_commands_and_output_vocabularies(recorded, tmp_path, eager):
    """Import, translate; pieces and shortlists beside the language."""
    source, target = CODES[recorded.folder.name]
    path = tmp_path / "model"
    code, output, errors = commands.run(
        "export.import_nllb",
        None,
        [],
        f"--hf={recorded.folder}",
        f"--model_dir={path}",
    )
    assert code == 0, errors
    licence = any("CC-BY-NC" in line for line in output)
    assert licence == (recorded.folder.name == "nllb")
    translator = load_translator(path, max_extra_tokens=NEW_TOKENS)
    answers = [a for a in recorded.answers if a["source"] == source][:6]
    texts = [answer["text"] for answer in answers]
    expected = translator.translate(texts)
    german = translator.for_languages(source, target)
    assert german.translate(texts) == expected
    file = tmp_path / "pieces.txt"
    file.write_text("\n".join(each.text or "a" for each in expected))
    search = {"target_pieces": [str(file)], "max_extra_tokens": NEW_TOKENS}
    arguments = load_output_vocabulary(
        search, recorded.tokenizer, recorded.pretrained.model.config
    )
    limited = Translator.from_model(
        recorded.pretrained.model, recorded.tokenizer, **arguments
    )
    assert len(limited.backend.target_pieces) < 900
    limited.languages = translator.languages
    assert len(limited.translate(texts)) == len(texts)
    pieces = recorded.our_ids
    names = [
        recorded.tokenizer.target.id_to_token(int(i))
        for i in pieces[pieces > END_ID][:60]
    ]
    shortlist = tmp_path / "shortlist"
    lines = [f"{name} {name} 0.5" for name in names]
    shortlist.write_text("\n".join([*lines, f"{names[0]} NULL 0.1", ""]))
    search = {"shortlist": str(shortlist), "shortlist_size": 128}
    arguments = load_output_vocabulary(
        search | {"max_extra_tokens": NEW_TOKENS},
        recorded.tokenizer,
        recorded.pretrained.model.config,
    )
    short = Translator.from_model(
        recorded.pretrained.model, recorded.tokenizer, **arguments
    )
    short.languages = translator.languages
    assert len(short.translate(texts)) == len(texts)
