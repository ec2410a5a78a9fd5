"""Imported models answer as Hugging Face's own code does, as recorded."""

import json

import numpy as np
import pytest

from export.pretrained.checkpoint import Checkpoint
from export.translators.translator import Translator
from tests.export.pretrained import marian_ids

# They may have 12 ids more than the source and its end, and ours count the
# end of one of the two alone.
_EXTRA = 13


def test_ids_are_those_of_their_tokenizer(recorded):
    folder, _, tokenizer, answers = recorded
    ours = tokenizer.source.encode([each["text"] for each in answers])
    their_ids = marian_ids.their_ids(folder, "source")
    assert [their_ids[ids].tolist() for ids in ours] == [
        each["ids"] for each in answers
    ]


def test_logits_and_scores_are_theirs(recorded):
    folder, found, tokenizer, answers = recorded
    their_ids = marian_ids.their_ids(folder, "target")
    our_ids = marian_ids.our_ids(folder, "target")
    translator = Translator(found.model, tokenizer)
    of_all = their_ids >= 0
    sources = tokenizer.source.encode([each["text"] for each in answers])
    for source, answer in zip(sources, answers[:20]):
        target = our_ids[answer["target"]]
        begun = np.concatenate([[2], target[:-1]])
        logits = found.model({"source": source[None], "target": begun[None]})
        ours = np.asarray(logits)[0, -1]
        theirs = np.array(answer["logits"])[their_ids[of_all]]
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours[of_all], theirs, atol=1e-5 * scale)
        # What they have no row of takes no part.
        assert (ours[~of_all] < -1e8).all()
        score = translator._score(source[None], target[None]).numpy()
        np.testing.assert_allclose(score, answer["log_prob"], rtol=1e-5)


@pytest.mark.parametrize(
    "beams",
    [
        4,
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(6, marks=pytest.mark.slow),
    ],
)
def test_the_search_finds_what_generate_finds(recorded, beams):
    compare_searches(recorded, beams, least=40)


def compare_searches(recorded, beams, least):
    folder, found, tokenizer, answers = recorded
    translator = Translator(
        found.model,
        tokenizer,
        beam_size=beams,
        max_output_extra=_EXTRA,
        # Theirs may say nothing at all.
        min_length=0,
    )
    # At the longest length ours must end, and theirs is cut off.
    compared = [
        answer
        for answer in answers
        if all(_ends(each) for each in answer["hypotheses"][str(beams)])
    ]
    assert len(compared) >= least
    ours = translator.n_best([each["text"] for each in compared], beams)
    for found_here, answer in zip(ours, compared):
        theirs = answer["hypotheses"][str(beams)]
        our_texts = [each.text.strip() for each in found_here]
        their_texts = [each["text"].strip() for each in theirs]
        if beams == 1:
            assert our_texts == their_texts
            continue
        our_scores = [each.score for each in found_here]
        their_scores = [each["score"] for each in theirs]
        np.testing.assert_allclose(our_scores, their_scores, rtol=1e-4)
        assert _ranked(our_texts, our_scores) == _ranked(
            their_texts, their_scores
        )


def _ranked(texts, scores):
    """Orders texts by their scores, and by themselves where these are one."""
    groups, last = [], None
    for text, score in zip(texts, scores):
        if last is None or abs(score - last) > 1e-4:
            groups.append([])
        groups[-1].append(text)
        last = score
    return [sorted(group) for group in groups]


def _ends(hypothesis):
    return hypothesis["ids"][-1:] == [0]


def test_the_search_is_as_their_configuration_says(recorded):
    _, found, _, _ = recorded
    config = found.model.config
    assert (config.beam_size, config.alpha) == (4, 1.0)
    assert (config.length_penalty, config.stop) == ("power", "heuristic")
    assert config.layer_norm_epsilon == 1e-5
    assert (found.source_language, found.target_language) == ("eng", "fra")


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


def test_tags_are_one_id_wherever_they_lead(recorded):
    folder, _, tokenizer, _ = recorded
    table = json.loads((folder / "vocab.json").read_text("utf-8"))
    (tag,) = np.flatnonzero(
        marian_ids.their_ids(folder, "source") == table[">>fra<<"]
    )
    plain, tagged, spaced, inside, quoted = tokenizer.source.encode(
        ["ka lo", ">>fra<< ka lo", "  >>fra<<ka lo", "ka >>fra<<", ">>ka lo<<"]
    )
    assert tagged.tolist() == spaced.tolist() == [tag, *plain]
    assert tag not in inside and tag not in quoted
