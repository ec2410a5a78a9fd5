"""What hypotheses may be, how they are compared, and when a search stops.

Section 6.1: beam search with a length penalty.
"""

import dataclasses
import typing

import numpy as np
from keras import ops

from keras_transformer.config import FORBIDDEN_IDS, PAD_ID
from keras_transformer.fields import MAX_ALPHA, MAX_BEAMS, checked_type

_INT32 = 2**31 - 1

STOPS = ("certain", "finished", "likely", "never")


class Constraints(typing.NamedTuple):
    """What each sentence's hypotheses must fulfil; sentences in front.

    Attributes:
        max_lengths: int32 [B], at least 1: tokens, the end id counted. At
            its maximum, or where the capacity ends, a hypothesis can only
            end.
        min_lengths: int32 [B], the same count, or (): none ends before.
        prefix: int32 [B, P], 0 after each one's end, or (): what hypotheses
            begin with, as far as their maximum length lets them.
        grammar: the state of `BeamSearchConfig.grammar` before the first token,
            a nest of tensors [B, ...]; () where there is no grammar.
    """

    max_lengths: typing.Any
    min_lengths: typing.Any = ()
    prefix: typing.Any = ()
    grammar: typing.Any = ()


def is_unset(values):
    """Returns whether a constraint is the () that says there is none."""
    return isinstance(values, tuple) and not values


def prepared(constraints, rules, max_length):
    """Checks constraints and makes them ready for a search.

    Args:
        constraints: Constraints, or only its `max_lengths`.
        rules: BeamSearchConfig.
        max_length: T, capacity for tokens: a number, or an int32 scalar.

    Returns:
        Constraints of int32 tensors, and the state of its grammar.

    Raises:
        ValueError: there is a grammar without its state, or a state without
            its grammar; or a length is no integer, or `max_length` below 1.
    """
    if isinstance(max_length, int) and max_length < 1:
        raise ValueError(f"max_length must be at least 1, not {max_length}.")
    if not isinstance(constraints, Constraints):
        constraints = Constraints(constraints)
    maxima, minima, prefix, grammar = constraints
    if is_unset(grammar) != (rules.grammar is None):
        raise ValueError(
            "BeamSearchConfig.grammar and Constraints.grammar, its state, go "
            "together; give both or neither."
        )
    # There a hypothesis must end, or none would be there to return.
    maxima = lengths("max_lengths", maxima, max_length)
    if not is_unset(minima):
        minima = lengths("min_lengths", minima, max_length)
    if not is_unset(prefix):
        # Behind its last column everything is free.
        prefix = ops.cast(prefix, "int32")
        end = ops.full((ops.shape(prefix)[0], 1), PAD_ID, dtype="int32")
        prefix = ops.concatenate([prefix, end], axis=1)
    return Constraints(maxima, minima, prefix), grammar


def lengths(name, values, max_length):
    """Returns lengths as int32 from 1 to `max_length`.

    Args:
        name: for the message.
        values: int [B], of any integer dtype.
        max_length: a number, or an int32 scalar.

    Raises:
        ValueError: they are no integers.
    """
    if ops.is_tensor(values) or any(map(ops.is_tensor, values)):
        values = ops.convert_to_tensor(values)
    else:
        values = np.asarray(values)
        if values.dtype.kind in "iu":
            values = np.array([min(int(each), _INT32) for each in values])
    if "int" not in str(values.dtype):
        raise ValueError(f"{name} must be integers, not {values.dtype}.")
    values = ops.convert_to_tensor(values)
    # Before the cast, which would wrap what int32 cannot hold.
    most = ops.cast(max_length, values.dtype)
    return ops.cast(ops.clip(values, ops.ones_like(most), most), "int32")


class Grammar(typing.Protocol):
    """Which tokens may follow which: a machine that reads hypotheses.

    It holds for every hypothesis, however likely another may be: none that
    it forbids is ever returned. Where it leaves no way on, and no end, there
    are fewer hypotheses. Its state is a nest of tensors of fixed shapes with
    sentences and beams in front, and follows a beam as the beam is continued.

    A minimum length and a prefix are no grammars here, though they could be:
    they concern one token a step, and a grammar looks at all V.
    """

    def allowed(self, state):
        """Returns which tokens may come next.

        Args:
            state: of each beam, nest of [B, K, ...].

        Returns:
            boolean [B, K, V]; the end id is one of them.
        """

    def advance(self, state, tokens):
        """Returns the state after a choice.

        Args:
            state: nest of [B, K, ...].
            tokens: int32 [B, K]; where a beam is impossible it may be one
                that was not allowed, and the result does not matter.
        """


@dataclasses.dataclass(frozen=True)
class BeamSearchConfig:
    """How hypotheses are compared, and when a sentence stops.

    Attributes:
        beam_size: K.
        alpha: exponent of the length penalty, from 0 to 8.
        length_penalty: "gnmt" or "power"; see `length_penalty` here.
        never: ids that no hypothesis may hold. The probabilities of the
            others stay as they are.
        stop: when a sentence stops before its maximum length. "certain": as
            soon as its result is, so that nothing but the time changes;
            "finished": as in CTranslate2, with its K-th hypothesis that ends
            among the K best candidates: fewer steps, and a better one may be
            missed; "likely": as in Hugging Face transformers, among the K best
            too, as soon as none of the live beams, at its present length,
            beats the K-th finished one; "never": at its maximum length, which
            shows in a test or a trace what stopping saves.
        n_best: how many hypotheses are wanted; only these are certain when
            a sentence stops. 0 for all K.
        grammar: Grammar, or None: everything may follow. The probabilities
            of what it allows stay as they are.

    Raises:
        ValueError: a value is out of range or of another type, or there is
            no such `length_penalty` or `stop`.
    """

    beam_size: int = 4
    alpha: float = 0.6
    length_penalty: str = "gnmt"
    never: tuple[int, ...] = ()
    stop: str = "certain"
    n_best: int = 0
    grammar: Grammar | None = None

    def __post_init__(self):
        check_range(self, "beam_size", 1, MAX_BEAMS)
        check_range(self, "alpha", 0.0, MAX_ALPHA)
        check_range(self, "n_best", 0, self.beam_size)
        check_suppressed(self)
        # Refuses what there is not.
        self.penalty(1)
        if self.stop not in STOPS:
            raise ValueError(
                f"stop must be {', '.join(STOPS)}, not {self.stop!r}."
            )

    @property
    def end_rank(self):
        """A beam may end if its end is among so many best candidates."""
        among = 1 if self.stop in ("finished", "likely") else 2
        return among * self.beam_size

    def penalty(self, length):
        """Returns what a log-probability is divided by."""
        return length_penalty(length, self.alpha, self.length_penalty)


def check_range(rules, name, least, most):
    """Checks a number of frozen rules, and keeps it as Python's own.

    Args:
        rules: the rules.
        name: of the attribute.
        least: the lowest value, of the attribute's type.
        most: the highest value, at most `sys.float_info.max`.

    Raises:
        ValueError: it has another type, or is not from `least` to `most`.
    """
    value = checked_type(name, type(least), getattr(rules, name))
    if not least <= value <= most:
        raise ValueError(
            f"{name} must be from {least:,} to {most:,}, not {value!r}."
        )
    object.__setattr__(rules, name, value)


def check_suppressed(rules):
    """Checks that `never` holds ids.

    Raises:
        ValueError: it holds something else.
    """
    never = tuple(checked_type("never", int, each) for each in rules.never)
    if min(never, default=0) < 0:
        raise ValueError(f"never must hold ids of at least 0, not {never}.")
    object.__setattr__(rules, "never", never)


def search_rules(config):
    """Returns the BeamSearchConfig of a TransformerConfig."""
    return BeamSearchConfig(
        beam_size=config.beam_size,
        alpha=config.alpha,
        length_penalty=config.length_penalty,
        stop=config.stop,
        never=FORBIDDEN_IDS,
    )


def length_penalty(length, alpha, kind="gnmt"):
    """Returns what a log-probability is divided by.

    It makes hypotheses of different length comparable.

    Args:
        length: int32 [...], tokens of the hypothesis, the end id counted.
        alpha: exponent; 0 gives 1 for every length.
        kind: "gnmt": ((5 + length) / 6) ** alpha (section 6.1, from Wu et
            al. 2016), or "power": length ** alpha.

    Returns:
        float32 [...].

    Raises:
        ValueError: there is no such kind.
    """
    length = ops.cast(length, "float32")
    if kind == "gnmt":
        return ops.power((5.0 + length) / 6.0, alpha)
    if kind == "power":
        return ops.power(length, alpha)
    raise ValueError(f"length_penalty must be gnmt or power, not {kind!r}.")
