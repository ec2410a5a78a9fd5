"""Configuration and constraints of a beam search: section 6.1."""

import dataclasses
import typing

import numpy as np
from keras import ops

from keras_transformer.config import (
    FORBIDDEN_IDS,
    LARGEST_INT,
    MAX_ALPHA,
    MAX_BEAMS,
    MAX_EXTRA_TOKENS,
    PAD_ID,
    validate_choice,
    validate_range,
)

STOP_CRITERIA = ("exact", "k_finished", "heuristic")
PENALTIES = ("gnmt", "power")


class Grammar(typing.Protocol):
    """An automaton that decides which tokens may follow a hypothesis.

    A forbidden hypothesis is never returned; if no token is allowed, not even
    the end, there are fewer hypotheses. The state is a nest of tensors of fixed
    shapes whose first axes are sentences and beams; the search gathers it with
    the beams.
    """

    def allowed(self, state):
        """Returns which tokens (or the end) may follow: boolean [B, K, V]."""

    def advance(self, state, tokens):
        """Returns the state after int32 [B, K] tokens.

        Impossible beams may have forbidden tokens; their state is not used.
        """


class Constraints(typing.NamedTuple):
    """Limits on each sentence's hypotheses; lengths include the end id.

    Attributes:
        max_lengths: int32 [B], at least 1: at this length, or at the search's
            `max_length`, a hypothesis can only end.
        min_lengths: int32 [B], or (): no hypothesis ends before.
        prefix: int32 [B, P], each followed by padding, or (): the first tokens
            of all hypotheses, up to their maximum length.
        grammar: the state of `BeamSearchConfig.grammar` before the first token,
            a nest of tensors [B, ...]; () without a grammar.
    """

    max_lengths: typing.Any
    min_lengths: typing.Any = ()
    prefix: typing.Any = ()
    grammar: typing.Any = ()


@dataclasses.dataclass(frozen=True)
class BeamSearchConfig:
    """Scoring and stopping of a beam search; invalid values raise ValueError.

    Attributes:
        beam_size: K.
        alpha: exponent of the length penalty, from 0 to 8.
        length_penalty: "gnmt" or "power"; see the function `length_penalty`.
        max_extra_tokens: default maximum of output length - source length in
            `translate_ids`.
        stop_criterion: when a sentence stops before its maximum length.
            "exact": when no live beam can change its result. "k_finished": as
            in CTranslate2, at its K-th finished hypothesis, which must end
            among the K best candidates; faster, but may miss a better one.
            "heuristic": as in Hugging Face transformers, also among the K best,
            when no live beam at its present length beats the K-th finished one.
        n_best: number of hypotheses that "exact" waits for; 0 for all K.
        suppress_tokens: ids that are not generated. The probabilities of other
            tokens do not change.
        grammar: Grammar, or None. The probabilities of allowed tokens do not
            change.
    """

    beam_size: int = 4
    alpha: float = 0.6
    length_penalty: str = "gnmt"
    max_extra_tokens: int = 50
    stop_criterion: str = "exact"
    n_best: int = 0
    suppress_tokens: tuple[int, ...] = FORBIDDEN_IDS
    grammar: Grammar | None = None

    def __post_init__(self):
        validate_fields(
            self,
            beam_size=(1, MAX_BEAMS),
            alpha=(0.0, MAX_ALPHA),
            max_extra_tokens=(0, MAX_EXTRA_TOKENS),
            n_best=(0, self.beam_size),
        )
        validate_choice("stop_criterion", self.stop_criterion, STOP_CRITERIA)
        validate_choice("length_penalty", self.length_penalty, PENALTIES)

    @classmethod
    def from_config(cls, config):
        """Returns the search settings of a TransformerConfig."""
        return cls(
            beam_size=config.beam_size,
            alpha=config.alpha,
            length_penalty=config.length_penalty,
            max_extra_tokens=config.max_extra_tokens,
            stop_criterion=config.stop_criterion,
        )

    @property
    def end_rank(self):
        """Rank among all candidates up to which a beam may end."""
        narrow = self.stop_criterion in ("k_finished", "heuristic")
        return self.beam_size if narrow else 2 * self.beam_size

    def penalty(self, length):
        """Returns the divisor of a log-probability; see `length_penalty`."""
        return length_penalty(length, self.alpha, self.length_penalty)


def length_penalty(length, alpha, kind="gnmt"):
    """Returns the divisor that makes scores of different lengths comparable.

    It is float32 [...] for int32 [...] lengths, which include the end id:
    "gnmt" is ((5 + length) / 6)^alpha (section 6.1, from Wu et al. 2016),
    "power" is length^alpha.
    """
    length = ops.cast(length, "float32")
    if kind == "gnmt":
        length = (5.0 + length) / 6.0
    return ops.power(length, alpha)


def validate_fields(config, **ranges):
    """Validates numbers of a frozen dataclass, and its `suppress_tokens`.

    They are stored as Python numbers. `ranges` are (least, most) by name.
    """
    name = "suppress_tokens"
    values = {
        name: tuple(
            validate_range(name, each, 0) for each in config.suppress_tokens
        )
    }
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        values[name] = validate_range(name, value, least, most)
    for name, value in values.items():
        object.__setattr__(config, name, value)


def is_unset(constraint):
    """Returns whether a constraint is ()."""
    return isinstance(constraint, tuple) and not constraint


def prepare_constraints(constraints, config, max_length):
    """Returns Constraints as tensors, and the initial state of the grammar.

    Raises ValueError if only one of the grammar and its state is given, a
    length is not an integer, or `max_length` is below 1.
    """
    if isinstance(max_length, int) and max_length < 1:
        raise ValueError(f"max_length must be at least 1, not {max_length}.")
    if not isinstance(constraints, Constraints):
        constraints = Constraints(constraints)
    maxima, minima, prefix, grammar = constraints
    if is_unset(grammar) != (config.grammar is None):
        raise ValueError(
            "BeamSearchConfig.grammar and its state, Constraints.grammar, go "
            "together; give both or neither."
        )
    # At `max_length` a hypothesis must end, or the search would find none.
    maxima = clip_lengths("max_lengths", maxima, max_length)
    if not is_unset(minima):
        minima = clip_lengths("min_lengths", minima, max_length)
    if not is_unset(prefix):
        # The padding column ends the longest prefix.
        prefix = ops.cast(prefix, "int32")
        end = ops.full((ops.shape(prefix)[0], 1), PAD_ID, dtype="int32")
        prefix = ops.concatenate([prefix, end], axis=1)
    return Constraints(maxima, minima, prefix), grammar


def clip_lengths(name, values, max_length):
    """Returns lengths of any integer dtype as int32, 1 to `max_length`."""
    if not ops.is_tensor(values):
        values = np.asarray(values)
        if values.dtype.kind in "iu":
            values = np.array([min(int(each), LARGEST_INT) for each in values])
    if "int" not in str(values.dtype):
        raise ValueError(f"{name} must be integers, not {values.dtype}.")
    values = ops.convert_to_tensor(values)
    # Clipped before the cast, which would wrap values above int32.
    most = ops.cast(max_length, values.dtype)
    return ops.cast(ops.clip(values, ops.ones_like(most), most), "int32")
