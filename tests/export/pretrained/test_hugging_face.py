"""Imported models answer as recorded from Hugging Face's own code."""

import json

import numpy as np
import pytest

from export.pretrained.checkpoint import Checkpoint
from export.translators.translator import Translator
from tests.export.pretrained.marian_ids import hugging_face_ids

# Theirs may have 12 ids more than the source and its end; only ours count the
# end of one of the two.
_EXTRA = 13


def test_ids_match(recorded):
    folder, _, tokenizer, answers = recorded
    ours = tokenizer.source.encode([each["text"] for each in answers])
    their_ids = hugging_face_ids(folder, "source")
    assert [their_ids[ids].tolist() for ids in ours] == [
        each["ids"] for each in answers
    ]


def test_logits_and_scores_match(recorded):
    folder, pretrained, tokenizer, answers = recorded
    their_ids = hugging_face_ids(folder, "target")
    our_ids = np.argsort(their_ids)[1:]
    translator = Translator(pretrained.model, tokenizer)
    has_row = their_ids >= 0
    sources = tokenizer.source.encode([each["text"] for each in answers])
    for source, answer in zip(sources, answers[:20]):
        target = our_ids[answer["target"]]
        given = np.concatenate([[2], target[:-1]])
        logits = pretrained.model(
            {"source": source[None], "target": given[None]}
        )
        ours = np.asarray(logits)[0, -1]
        theirs = np.array(answer["logits"])[their_ids[has_row]]
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours[has_row], theirs, atol=1e-5 * scale)
        assert (ours[~has_row] < -1e8).all()
        score = translator._score(source[None], target[None]).numpy()
        np.testing.assert_allclose(score, answer["log_prob"], rtol=1e-5)


@pytest.mark.parametrize(
    "beams", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 6))]
)
def test_searches_match(recorded, beams):
    _, pretrained, tokenizer, answers = recorded
    translator = Translator(
        pretrained.model,
        tokenizer,
        beam_size=beams,
        max_extra_tokens=_EXTRA,
        # Theirs may be empty.
        min_length=0,
    )
    # At the longest length ours must end, and theirs is truncated.
    ended = [
        answer
        for answer in answers
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


def test_the_search_has_the_settings_of_the_directory(recorded):
    _, pretrained, _, _ = recorded
    config = pretrained.model.config
    assert (config.beam_size, config.alpha) == (4, 1.0)
    assert (config.length_penalty, config.stop_criterion) == (
        "power",
        "heuristic",
    )
    assert config.layer_norm_epsilon == 1e-5
    languages = pretrained.source_language, pretrained.target_language
    assert languages == ("eng", "fra")


def test_a_file_of_torch_holds_the_same(marian_folder):
    folder = marian_folder / "shared"
    one = Checkpoint(folder / "model.safetensors")
    other = Checkpoint(folder / "pytorch_model.bin")
    assert one.names <= other.names
    for name in one.names:
        shape = one.shape(name)
        np.testing.assert_array_equal(
            one.read(name, shape), other.read(name, shape)
        )


def test_a_leading_tag_is_one_id(recorded):
    folder, _, tokenizer, _ = recorded
    table = json.loads((folder / "vocab.json").read_text("utf-8"))
    (tag,) = np.flatnonzero(
        hugging_face_ids(folder, "source") == table[">>fra<<"]
    )
    plain, tagged, spaced, inside, quoted = tokenizer.source.encode(
        ["ka lo", ">>fra<< ka lo", "  >>fra<<ka lo", "ka >>fra<<", ">>ka lo<<"]
    )
    assert tagged.tolist() == spaced.tolist() == [tag, *plain]
    assert tag not in inside and tag not in quoted
