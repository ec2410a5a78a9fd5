"""Tiny models and random data."""

import dataclasses

import keras
import numpy as np

import keras_transformer as kt
from trainers.batches import PlannedBatches
from trainers.batches.by_length import plan_by_length
from trainers.batches.token_pairs import TokenPairs
from trainers.training.backend import new_training_model

MINUTE = {
    "vocabulary_size": 13,
    "num_layers": 1,
    "d_model": 8,
    "d_ff": 12,
    "num_heads": 2,
    "d_k": 4,
    "d_v": 4,
    "dropout": 0.0,
    "warmup_steps": 4,
    "learning_rate_scale": 0.2,
    "batch_tokens": 64,
    "average_checkpoints": 0,
}
END = 3


def minute_config(**changes) -> kt.TransformerConfig:
    return kt.TransformerConfig(**{**MINUTE, **changes})


def minute_model(seed=0, compile_gradient=False, **changes):
    """A compiled TrainingTransformer, the same for the same seed."""
    keras.utils.set_random_seed(seed)
    config = minute_config(**changes)
    model = new_training_model(config, compile_gradient=compile_gradient)
    model.compile_for_training()
    return model


def made_up_pairs(count, seed=0, longest=9, vocabulary=13) -> TokenPairs:
    """Random sentences of 1 to `longest` ids, the end id counted."""
    generator = np.random.default_rng(seed)

    def sentences():
        return [
            [*generator.integers(4, vocabulary, length), END]
            for length in generator.integers(0, longest, count)
        ]

    return token_pairs(sentences(), sentences())


def token_pairs(sources, targets) -> TokenPairs:
    """TokenPairs of lists of ids, in one shard."""
    pairs = list(zip(sources, targets, strict=True))
    ids = [number for pair in pairs for side in pair for number in side]
    lengths = [[len(source), len(target)] for source, target in pairs]
    lengths = np.array(lengths, np.uint16).reshape(-1, 2)
    return TokenPairs([(np.array(ids, np.int32), lengths)])


def plan_of(pairs, batch_tokens=64, shapes=3, seed=1):
    """The batches as `trainers.training.fit` plans them."""

    return plan_by_length(
        pairs.source_lengths, pairs.target_lengths, batch_tokens, shapes, seed
    )


def batches_of(pairs, shapes=3) -> PlannedBatches:
    """Those of `plan_of`, as arrays."""
    return PlannedBatches(pairs, plan_of(pairs, shapes=shapes))


def weights_of(model) -> list[np.ndarray]:
    return [weight.numpy() for weight in model.weights]


def largest_difference(one, other) -> float:
    """Over two lists of arrays of the same shapes."""
    assert [a.shape for a in one] == [b.shape for b in other]
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other))


@dataclasses.dataclass
class Figures:
    """What a batch should give, from its logits, in float64."""

    loss: float
    perplexity: float
    accuracy: float
    tokens: int


def figures(logits, labels, smoothing) -> Figures:
    """Sums over the tokens that are not padding, divided at the end."""
    loss = plain = right = tokens = 0
    for row_logits, row_labels in zip(np.float64(logits), labels):
        for scores, label in zip(row_logits, row_labels):
            if label == 0:
                continue
            log_p = scores - np.log(np.exp(scores - scores.max()).sum())
            log_p -= scores.max()
            wanted = np.full(len(scores), smoothing / (len(scores) - 1))
            wanted[label] = 1 - smoothing
            loss -= (wanted * log_p).sum()
            plain -= log_p[label]
            right += scores.argmax() == label
            tokens += 1
    return Figures(
        loss / tokens, np.exp(plain / tokens), right / tokens, tokens
    )
