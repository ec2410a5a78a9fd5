"""Configuration and constraints of a beam search: section 6.1."""

import dataclasses
import typing

import numpy as np
from keras import ops

from keras_transformer.config import (
    END_ID,
    FORBIDDEN_IDS,
    LARGEST_INT,
    MAX_ALPHA,
    MAX_BEAMS,
    MAX_EXTRA_TOKENS,
    MAX_REPETITION_PENALTY,
    MIN_ALPHA,
    PAD_ID,
    SEARCH_FIELDS,
    SMALLEST_FLOAT,
    TransformerConfig,
    validate_choice,
    validate_range,
)
from keras_transformer.types import Tensor, TensorLike

# Represents log 0. Finite, so that sums and comparisons stay finite: sums with
# it are below half of it, the log-probabilities of possible hypotheses above.
IMPOSSIBLE = -1e9
LEAST_POSSIBLE = 0.5 * IMPOSSIBLE

# Tokens of low ids, often the most frequent ones, that may follow a term.
_NUM_NEXT_WORDS = 16

STOP_CRITERIA = ("exact", "k_finished", "heuristic")
PENALTIES = ("gnmt", "power")


class Grammar(typing.Protocol):
    """An automaton that decides which tokens may follow a hypothesis.

    Forbidden hypotheses are never returned; if no token is allowed, not even
    the end, fewer are returned. The state is a nest of tensors of fixed shapes
    [B, K, ...], which the search gathers with the beams.
    """

    def allowed(self, state: typing.Any) -> Tensor:
        """Returns which tokens, or the end, may follow: boolean [B, K, V]."""

    def advance(self, state: typing.Any, tokens: Tensor) -> typing.Any:
        """Returns the state after int32 [B, K] tokens.

        Tokens may be forbidden in impossible beams, whose state is not used.
        """


class WordEdges:
    """Tells which tokens begin or end within a word; boolean arrays [V].

    Args:
        joins_previous: whether a token continues the word of the token before
            it. False for the end id.
        joins_next: whether a token's word may continue.
        precedes_word: whether a word may follow a token without a space, as
            after an apostrophe.
        joins_copies: which other tokens continue a copied term, such as ".org";
            None for none.
        connects: which tokens do so if a word follows, such as "."; None for
            none.
    """

    def __init__(
        self,
        joins_previous: TensorLike,
        joins_next: TensorLike,
        precedes_word: TensorLike,
        joins_copies: TensorLike | None = None,
        connects: TensorLike | None = None,
    ):
        self.joins_previous = np.asarray(joins_previous, "bool")
        self.joins_next = np.asarray(joins_next, "bool")
        self.precedes_word = np.asarray(precedes_word, "bool")
        none = np.zeros_like(self.joins_previous)
        joins_copies, connects = (
            none if each is None else np.asarray(each, "bool")
            for each in (joins_copies, connects)
        )
        self.joins_copies = self.joins_previous | joins_copies
        self.connects = connects
        ids = np.flatnonzero(~self.joins_previous)
        self.next_word_ids = ids[ids > END_ID][:_NUM_NEXT_WORDS]


class Constraints(typing.NamedTuple):
    """Limits on each sentence's hypotheses; lengths include the end id.

    Attributes:
        max_lengths: int32 [B], at least 1: at this length, or at the search's
            `max_length`, a hypothesis can only end.
        min_lengths: int32 [B], the minimum length of all hypotheses, or ().
        prefix: int32 [B, P], the first tokens of all hypotheses, truncated at
            `max_lengths`, then padding; or ().
        grammar: the state of `BeamSearchConfig.grammar` before the first token,
            a nest of tensors [B, ...]; () without a grammar.
        terms: int32 [B, C, A, L], the tokens of A alternatives of each of C
            terms, then padding; or (). Each hypothesis contains one of the
            alternatives of each term as whole words, see
            `BeamSearchConfig.word_edges`. At least one alternative of a term
            must begin a word. A maximum length of all terms' shortest
            alternatives, the prefix and the end suffices for any beam size.
        copied_terms: boolean [B, C], which terms are text that the model
            copies, or () for none. It decides by itself where they begin, and a
            hypothesis with two tokens of one continues it to its end.
    """

    max_lengths: TensorLike
    min_lengths: typing.Any = ()
    prefix: typing.Any = ()
    grammar: typing.Any = ()
    terms: typing.Any = ()
    copied_terms: typing.Any = ()


@dataclasses.dataclass(frozen=True)
class BeamSearchConfig:
    """Scoring and stopping of a beam search; invalid values raise ValueError.

    The defaults of SEARCH_FIELDS are those of a TransformerConfig.

    Attributes:
        beam_size: K.
        alpha: exponent of the length penalty, from -1 to 8.
        length_penalty: "gnmt" or "power"; see the function `length_penalty`.
        max_extra_tokens: default maximum of output length - source length in
            `translate_ids`.
        stop_criterion: when a sentence stops before its maximum length.
            "exact": when no live beam can change its result. "k_finished": at
            the K-th finished hypothesis, as in CTranslate2; faster, but may
            miss a better one. "heuristic": when no live beam at its present
            length beats the K-th finished hypothesis, as in Hugging Face
            transformers: a fifth fewer steps than "exact", and rarely another
            result (docs/measured/decoding.md). With the last two a hypothesis
            ends only if its end is among the K best candidates.
        no_repeat_ngram_size: number of tokens of which no sequence occurs twice
            in a hypothesis; 0 for any.
        retry_ngram_size: another `no_repeat_ngram_size`, with which
            `translate_ids` searches again where the best translation has some
            sequence of this many tokens more often than the source has any; 0
            for one search.
        repetition_penalty: factor of the log-probability of tokens that a
            hypothesis has already; above 1 they become less likely.
        n_best: number of hypotheses that "exact" waits for, with terms also
            the other criteria; 0 for all K.
        suppress_tokens: ids that are never generated. Neither these nor a
            grammar changes the probabilities of allowed tokens.
        grammar: Grammar, or None.
        word_edges: WordEdges, with which hypotheses contain
            `Constraints.terms`; or None.
        num_given_tokens: number of tokens that the length penalty counts beside
            those that are generated, such as that of the target's language.
        min_length: minimum number of tokens of a hypothesis before the end, for
            all without `Constraints.min_lengths`; the maximum length wins.
    """

    beam_size: int = TransformerConfig.beam_size
    alpha: float = TransformerConfig.alpha
    length_penalty: str = TransformerConfig.length_penalty
    max_extra_tokens: int = TransformerConfig.max_extra_tokens
    stop_criterion: str = TransformerConfig.stop_criterion
    no_repeat_ngram_size: int = TransformerConfig.no_repeat_ngram_size
    retry_ngram_size: int = TransformerConfig.retry_ngram_size
    repetition_penalty: float = TransformerConfig.repetition_penalty
    n_best: int = 0
    suppress_tokens: tuple[int, ...] = FORBIDDEN_IDS
    grammar: Grammar | None = None
    word_edges: WordEdges | None = None
    num_given_tokens: int = 0
    min_length: int = 0

    def __post_init__(self):
        validate_ranges_and_tokens(
            self,
            beam_size=(1, MAX_BEAMS),
            alpha=(MIN_ALPHA, MAX_ALPHA),
            max_extra_tokens=(0, MAX_EXTRA_TOKENS),
            no_repeat_ngram_size=(0, MAX_EXTRA_TOKENS),
            retry_ngram_size=(0, MAX_EXTRA_TOKENS),
            repetition_penalty=(SMALLEST_FLOAT, MAX_REPETITION_PENALTY),
            n_best=(0, self.beam_size),
            num_given_tokens=(0, None),
            min_length=(0, MAX_EXTRA_TOKENS),
        )
        validate_choice("stop_criterion", self.stop_criterion, STOP_CRITERIA)
        validate_choice("length_penalty", self.length_penalty, PENALTIES)

    @classmethod
    def from_config(
        cls, config: TransformerConfig, **fields: typing.Any
    ) -> typing.Self:
        """Creates it from a TransformerConfig, and other fields."""
        own = {name: getattr(config, name) for name in SEARCH_FIELDS}
        return cls(**own, **fields)

    @property
    def end_rank(self) -> int:
        """Number of best candidates among which a beam may end."""
        is_exact = self.stop_criterion == "exact"
        return 2 * self.beam_size if is_exact else self.beam_size

    def penalty(self, length: TensorLike) -> Tensor:
        """Returns the divisor of a log-probability; see `length_penalty`."""
        length = length + self.num_given_tokens
        return length_penalty(length, self.alpha, self.length_penalty)


def length_penalty(
    length: TensorLike, alpha: float, formula: str = "gnmt"
) -> Tensor:
    """Returns the divisor that makes scores of different lengths comparable.

    It is float32 [...] for int32 [...] lengths, which include the end id:
    "gnmt" is ((5 + length) / 6)^alpha (section 6.1, from Wu et al. 2016),
    "power" is length^alpha.
    """
    length = ops.cast(length, "float32")
    if formula == "gnmt":
        length = (5.0 + length) / 6.0
    return ops.power(length, alpha)


def validate_ranges_and_tokens(
    config: typing.Any, **ranges: tuple[float, float | None]
) -> None:
    """Validates numbers of a frozen dataclass, and its `suppress_tokens`.

    They become Python numbers. `ranges` has (least, most) for each name.
    """
    for name, (least, most) in ranges.items():
        value = validate_range(name, getattr(config, name), least, most)
        object.__setattr__(config, name, value)
    name = "suppress_tokens"
    ids = [validate_range(name, each, 0) for each in config.suppress_tokens]
    object.__setattr__(config, name, tuple(ids))


def is_unset(constraint: typing.Any) -> bool:
    """Returns whether a constraint is ()."""
    return isinstance(constraint, tuple) and not constraint


def prepare_constraints(
    constraints: Constraints | TensorLike,
    config: BeamSearchConfig,
    max_length: int | Tensor,
) -> tuple[Constraints, typing.Any]:
    """Returns Constraints as tensors, and the initial state of the grammar.

    Raises ValueError if only one of the grammar and its state is given, or of
    terms and word edges, or both pairs; if a length is not an integer, or
    `max_length` is below 1.
    """
    if isinstance(max_length, int) and max_length < 1:
        raise ValueError(f"max_length must be at least 1, not {max_length}.")
    if not isinstance(constraints, Constraints):
        constraints = Constraints(constraints)
    max_lengths, min_lengths, prefix, state, terms, copied = constraints
    if is_unset(state) != (config.grammar is None):
        raise ValueError(
            "BeamSearchConfig.grammar and its state, Constraints.grammar, go "
            "together; give both or neither."
        )
    if is_unset(terms) != (config.word_edges is None):
        raise ValueError(
            "BeamSearchConfig.word_edges and Constraints.terms go together; "
            "give both or neither."
        )
    if config.grammar is not None and config.word_edges is not None:
        raise ValueError("A search has a grammar or terms, not both.")
    # At `max_length` a hypothesis must end, or the search would find none.
    max_lengths = clip_lengths("max_lengths", max_lengths, max_length)
    if not is_unset(min_lengths):
        min_lengths = clip_lengths("min_lengths", min_lengths, max_length)
    elif config.min_length:
        # Not a constant: TensorFlow 2.21 cannot compile a third loop with a
        # constant input.
        min_lengths = ops.minimum(max_lengths, config.min_length + 1)
    if not is_unset(prefix):
        # Ensures that each prefix ends with padding.
        prefix = ops.cast(prefix, "int32")
        prefix = ops.pad(prefix, ((0, 0), (0, 1)), constant_values=PAD_ID)
    constraints = Constraints(
        max_lengths, min_lengths, prefix, (), terms, copied
    )
    return constraints, state


def clip_lengths(
    name: str, values: TensorLike, max_length: int | Tensor
) -> Tensor:
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
