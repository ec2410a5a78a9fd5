"""Imported models answer as recorded from Hugging Face's own code."""

import numpy as np
import pytest

from export.pretrained.checkpoint import Checkpoint
from export.translators.batches import pad_ids
from export.translators.translator import Translator

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
    translator = Translator(recorded.pretrained.model, recorded.tokenizer)
    has_row = their_ids >= 0
    answers = recorded.answers[:20]
    texts = [each["text"] for each in answers]
    source = pad_ids(recorded.tokenizer.source.encode(texts))
    target = pad_ids([our_ids[each["target"]] for each in answers])
    given = np.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    logits = recorded.pretrained.model({"source": source, "target": given})
    scores = translator._score(source, target).numpy()
    for ours, score, answer in zip(np.asarray(logits), scores, answers):
        ours = ours[len(answer["target"]) - 1]
        theirs = np.array(answer["logits"])[their_ids[has_row]]
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours[has_row], theirs, atol=1e-5 * scale)
        assert (ours[~has_row] < -1e8).all()
        np.testing.assert_allclose(score, answer["log_prob"], rtol=1e-5)


@pytest.mark.parametrize(
    "beams", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 6))]
)
def test_searches_match(recorded, beams, eager):
    config = recorded.pretrained.model.config
    assert (config.beam_size, config.alpha) == (4, 1.0)
    assert config.length_penalty == "power"
    assert config.stop_criterion == "heuristic"
    assert config.layer_norm_epsilon == 1e-5
    assert recorded.pretrained.languages == ("eng", "fra")
    translator = Translator(
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
    one = Checkpoint(folder / "model.safetensors")
    other = Checkpoint(folder / "pytorch_model.bin")
    assert one.names <= other.names
    for name in one.names:
        shape = one.shape(name)
        np.testing.assert_array_equal(
            one.read(name, shape), other.read(name, shape)
        )
