"""BPE dropout: which segmentations, how often, the same in each process."""

import collections
import functools
import itertools
import random

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.trainers import cipher
from tests.trainers.data.memory_corpus import SIZE, prepare, vocabulary
from trainers.data import bpe_dropout
from trainers.data.bpe_dropout import BpeDropout

TEXTS = [text for pair in cipher.sentences(60, 1) for text in pair]


@functools.cache
def _model():
    proto = vocabulary(
        size=SIZE + 256, byte_fallback=True, tags=(">>de<<", "<bt>")
    )
    return proto, sentencepiece.SentencePieceProcessor(model_proto=proto)


def _encode(texts):
    _, processor = _model()
    return [
        np.array([*processor.encode(text), processor.eos_id()], np.int32)
        for text in texts
    ]


def _listed(arrays):
    assert all(each.dtype == np.int32 for each in arrays)
    return [each.tolist() for each in arrays]


@given(
    st.lists(
        st.text()
        | st.lists(
            st.sampled_from([*TEXTS, ">>de<<", "<bt>", "€", "▁", "日本"])
        ).map(" ".join)
    )
)
def test_without_dropout_tokens_are_those_of_sentencepiece(texts):
    proto, _ = _model()
    tokenizer = BpeDropout(_encode, proto, dropout=0.0)
    actual = tokenizer.encode(texts, np.random.default_rng(1))
    assert _listed(actual) == _listed(_encode(texts))


def test_random_tokens_are_of_the_same_text_and_differ():
    proto, processor = _model()
    texts = [f">>de<< {text} €" for text in TEXTS]
    tokenizer = BpeDropout(_encode, proto)
    one, other = (
        _listed(tokenizer.encode(texts, np.random.default_rng(seed)))
        for seed in (1, 2)
    )
    assert one != other != _listed(_encode(texts))
    assert processor.decode(one) == processor.decode(other)
    assert processor.decode(one) == processor.decode(_listed(_encode(texts)))
    # Tags and bytes are not segmented.
    ends = processor.encode("€")[1:]
    for ids in one:
        assert ids[0] == processor.encode(">>de<<")[0]
        assert ids[-1 - len(ends) : -1] == ends


def _probabilities(symbols, scores, dropout):
    """Probability of each segmentation, over all sets of dropped merges."""
    merges = [
        (-scores[one + other], position)
        for position, (one, other) in enumerate(itertools.pairwise(symbols))
        if one + other in scores
    ]
    totals = collections.Counter()
    for kept in itertools.product((False, True), repeat=len(merges)):
        probability = np.prod([1 - dropout if k else dropout for k in kept])
        chosen = [*itertools.compress(merges, kept)]
        if not chosen:
            totals[tuple(symbols)] += probability
            continue
        _, at = min(chosen)
        merged = [
            *symbols[:at],
            symbols[at] + symbols[at + 1],
            *symbols[at + 2 :],
        ]
        for end, share in _probabilities(merged, scores, dropout).items():
            totals[end] += probability * share
    return totals


def test_segmentations_are_as_likely_as_in_the_paper(monkeypatch):
    monkeypatch.setattr(bpe_dropout, "_NUM_VARIANTS", 1 << 40)
    proto, processor = _model()
    scores = {
        processor.id_to_piece(token_id): processor.get_score(token_id)
        for token_id in range(len(processor))
    }
    word = TEXTS[0].replace(" ", "")[:5]
    expected = _probabilities([*f"▁{word}"], scores, 0.3)
    assert len(expected) > 5
    assert sum(expected.values()) == pytest.approx(1)
    tokenizer = BpeDropout(_encode, proto, dropout=0.3)
    count = 4000
    counts = collections.Counter(
        tuple(processor.id_to_piece(ids[:-1].tolist()))
        for ids in tokenizer.encode([word] * count, np.random.default_rng(5))
    )
    assert set(counts) <= set(expected)
    for tokens, probability in expected.items():
        deviation = np.sqrt(probability * (1 - probability) / count)
        assert abs(counts[tokens] / count - probability) < 5 * deviation


def test_other_processes_draw_the_same(monkeypatch):
    seeds = []

    class Recorded(random.Random):
        def __init__(self, seed):
            seeds.append(seed)
            super().__init__(seed)

    monkeypatch.setattr(random, "Random", Recorded)
    BpeDropout(_encode, _model()[0]).encode(TEXTS, np.random.default_rng(3))
    # Other objects may have another hash in each process.
    assert {type(seed) for seed in seeds} == {str}


def test_vocabularies_of_other_types_are_refused(tmp_path):
    texts = tmp_path / "text"
    texts.write_text("\n".join(TEXTS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(texts),
        model_prefix=str(tmp_path / "unigram"),
        model_type="unigram",
        vocab_size=40,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    proto = (tmp_path / "unigram.model").read_bytes()
    changes = {"vocabulary": proto, "vocabulary_size": 40}
    prepare(tmp_path / "usual", **changes)
    with pytest.raises(InputError, match="--segmentations"):
        prepare(tmp_path / "random", **changes, segmentations=2)
    assert not (tmp_path / "random").exists()
