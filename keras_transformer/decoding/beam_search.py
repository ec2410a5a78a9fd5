"""Beam search with a length penalty: section 6.1.

`beam_search` is the whole search of any `step`; `translate_ids` runs the same
loop in parts, between which it makes room for a Transformer's caches. Letters:
B sentences, K beams, V vocabulary, T capacity for tokens.
"""

import functools
import math
import typing
from collections.abc import Callable

from keras import ops, tree

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from keras_transformer.decoding.candidates import (
    Candidates,
    best_candidates,
    block_repetition,
    forced_candidates,
    gather_beams,
    penalize_repetition,
)
from keras_transformer.decoding.search_config import (
    IMPOSSIBLE,
    LEAST_POSSIBLE,
    BeamSearchConfig,
    Constraints,
    is_unset,
    prepare_constraints,
)
from keras_transformer.decoding.terms import (
    TermBeams,
    advance_terms,
    prepare_terms,
)
from keras_transformer.ids import arange, as_ids, bound_ids, nan_unless
from keras_transformer.types import Tensor, TensorLike

# Tokens, parents, index and state to logits and state; see `beam_search`.
StepFunction: typing.TypeAlias = Callable[
    [Tensor, Tensor, Tensor, typing.Any], tuple[Tensor, typing.Any]
]


class BeamSearchResult(typing.NamedTuple):
    """The best hypotheses of each sentence, best first.

    Attributes:
        tokens: int32 [B, K, T], ending with the end id, then padding.
        scores: float32 [B, K], log-probability / length penalty, or -1e9 for
            missing hypotheses if fewer than K are possible; NaN if logits are,
            as those of ids outside the vocabulary.
        state: state of `step` when the sentence stopped.
    """

    tokens: Tensor
    scores: Tensor
    state: typing.Any


class BeamSearchState(typing.NamedTuple):
    """The search between two steps; live beams are unfinished hypotheses."""

    index: Tensor  # int32 scalar, tokens produced so far
    constraints: Constraints
    live_tokens: Tensor  # int32 [B, K, T]
    live_log_probs: Tensor  # float32 [B, K], best first
    parents: Tensor  # int32 [B, K], the beam that each continues
    finished_tokens: Tensor  # int32 [B, K, T], the best of all so far
    finished_scores: Tensor  # float32 [B, K], best first
    stopped: Tensor  # boolean [B]; all other sentences are running
    grammar_state: typing.Any  # or TermState of each live beam, [B, K, ...]
    step_state: typing.Any  # state of `step`, such as a DecoderState

    def result(self, state: typing.Any) -> BeamSearchResult:
        """Returns the BeamSearchResult with this state."""
        is_nan = ops.isnan(self.live_log_probs)
        scores = ops.where(is_nan, math.nan, self.finished_scores)
        return BeamSearchResult(self.finished_tokens, scores, state)


def beam_search(
    step: StepFunction,
    state: typing.Any,
    constraints: Constraints | TensorLike,
    max_length: int | Tensor,
    config: BeamSearchConfig | None = None,
) -> BeamSearchResult:
    """Finds the hypotheses with the highest penalized log-probability.

    Each step considers the 2K best candidates of the K live beams. Candidates
    that end join the finished hypotheses, of which the K best are kept; the K
    best other candidates become the live beams. At its maximum length a
    hypothesis can only end. With the stop criterion "exact" a sentence stops
    when its best live log-probability / largest penalty ahead, an upper bound
    for all candidates, is not above the finished score of the last requested
    hypothesis, so that stopping never changes those; others stop earlier
    (`BeamSearchConfig`). The result of a sentence does not depend on others.

    Args:
        step: function (tokens int32 [B, K], parents int32 [B, K], index int32
            scalar, state) -> (logits float [B, K, V], state). `tokens` are each
            beam's last token, `parents` the beam of the previous step that it
            continues, and `index` counts from 0.
        state: initial state of `step`; a nest of tensors of fixed shapes whose
            first axis is the sentence.
        constraints: Constraints, or just their `max_lengths`.
        max_length: T, an int or int32 scalar.
        config: BeamSearchConfig; None for its defaults.
    """
    config = config or BeamSearchConfig()
    search = start_search(config, constraints, max_length, state)
    search = run_search(
        step, search, lambda search: is_running(search, max_length), config
    )
    return search.result(search.step_state)


def run_search(
    step: StepFunction,
    search: BeamSearchState,
    condition: Callable[[BeamSearchState], Tensor],
    config: BeamSearchConfig,
) -> BeamSearchState:
    """Repeats a step while a function of the BeamSearchState is true."""

    def advance(search):
        tokens = last_tokens(search.live_tokens, search.index)
        logits, step_state = step(
            tokens, search.parents, search.index, search.step_state
        )
        return (advance_search(config, search, logits, step_state),)

    (search,) = ops.while_loop(condition, advance, (search,))
    return search


def start_search(
    config: BeamSearchConfig,
    constraints: Constraints | TensorLike,
    max_length: int | Tensor,
    step_state: typing.Any,
) -> BeamSearchState:
    """Returns the BeamSearchState before the first step."""
    constraints, states = prepare_constraints(constraints, config, max_length)
    batch = ops.shape(constraints.max_lengths)[0]
    first = ops.zeros((batch, 1), dtype="float32")
    if config.word_edges is not None:
        count = len(config.word_edges.joins_previous)
        terms, is_inside = bound_ids(
            as_ids(constraints.terms), count, "id of a term"
        )
        is_inside = ops.all(is_inside, axis=(1, 2, 3))
        first = first * nan_unless(is_inside, 1, "float32")[:, None]
        constraints = constraints._replace(terms=terms)
        terms, states = prepare_terms(constraints, config.word_edges)
        constraints = constraints._replace(terms=terms, copied_terms=())
    beams = config.beam_size
    tokens = ops.full((batch, beams, max_length), PAD_ID, dtype="int32")
    # All beams are equal at first, so only one is possible.
    others = ops.full((batch, beams - 1), IMPOSSIBLE, dtype="float32")
    return BeamSearchState(
        index=ops.convert_to_tensor(0, "int32"),
        constraints=constraints,
        live_tokens=tokens,
        live_log_probs=ops.concatenate([first, others], axis=1),
        parents=ops.zeros((batch, beams), dtype="int32"),
        finished_tokens=tokens,
        finished_scores=ops.full((batch, beams), IMPOSSIBLE, dtype="float32"),
        stopped=ops.zeros((batch,), dtype="bool"),
        grammar_state=tree.map_structure(
            lambda each: ops.repeat(each[:, None], beams, axis=1), states
        ),
        step_state=step_state,
    )


def advance_search(
    config: BeamSearchConfig,
    search: BeamSearchState,
    logits: Tensor,
    step_state: typing.Any,
) -> BeamSearchState:
    """Returns the search after a step with these logits and this state."""
    constraints, length = search.constraints, search.index + 1
    candidates = constrained_candidates(config, search, logits)
    at_limit = length >= constraints.max_lengths  # [B]
    is_possible = candidates.end_log_probs > LEAST_POSSIBLE
    may_end = is_possible & (candidates.may_end | at_limit[:, None])  # [B, K]
    # A tie must not change the result of a stopped sentence.
    may_end = may_end & ~search.stopped[:, None]
    end_scores = candidates.end_log_probs / config.penalty(length)
    end_scores = ops.where(may_end, end_scores, IMPOSSIBLE)
    scores = ops.concatenate([search.finished_scores, end_scores], axis=1)
    finished_scores, order = ops.top_k(scores, config.beam_size)
    newest = arange(ops.shape(search.live_tokens)[2]) == search.index  # [T]
    ended_tokens = ops.where(newest, END_ID, search.live_tokens)
    tokens = ops.concatenate([search.finished_tokens, ended_tokens], axis=1)
    finished_tokens = gather_beams(tokens, order)
    live_tokens, grammar_state = gather_beams(
        (search.live_tokens, search.grammar_state), candidates.parents
    )
    live_tokens = ops.where(newest, candidates.tokens[..., None], live_tokens)
    if config.grammar is not None:
        grammar_state = config.grammar.advance(grammar_state, candidates.tokens)
    if config.word_edges is not None:
        grammar_state = advance_terms(
            config.word_edges,
            constraints.terms,
            grammar_state,
            candidates.tokens,
        )
    best = candidates.log_probs[:, 0]
    stops_now = should_stop(config, length, constraints, best, finished_scores)
    return BeamSearchState(
        index=length,
        constraints=constraints,
        live_tokens=live_tokens,
        live_log_probs=candidates.log_probs,
        parents=candidates.parents,
        finished_tokens=finished_tokens,
        finished_scores=finished_scores,
        stopped=search.stopped | at_limit | stops_now,
        grammar_state=grammar_state,
        step_state=step_state,
    )


def constrained_candidates(
    config: BeamSearchConfig, search: BeamSearchState, logits: Tensor
) -> Candidates:
    """Returns the Candidates that the constraints allow: logits [B, K, V]."""
    constraints, length = search.constraints, search.index + 1
    too_short = allowed = terms = None
    if not is_unset(constraints.min_lengths):
        # The maximum length overrides the minimum.
        too_short = length < constraints.min_lengths  # [B]
    if config.grammar is not None:
        allowed = config.grammar.allowed(search.grammar_state)  # [B, K, V]
    if config.word_edges is not None:
        terms = TermBeams(
            config.word_edges,
            constraints.terms,
            search.grammar_state,
            constraints.max_lengths - length,
        )
    normalizer = block = None
    live = {"tokens": search.live_tokens, "index": search.index}
    if config.repetition_penalty != 1:
        log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        logits = penalize_repetition(
            log_probs, **live, penalty=config.repetition_penalty
        )
        normalizer = ops.zeros_like(search.live_log_probs)
    if size := config.no_repeat_ngram_size:
        block = functools.partial(block_repetition, **live, size=size)
    unforced = best_candidates(
        logits,
        search.live_log_probs,
        config.end_rank,
        config.suppress_tokens,
        too_short,
        allowed,
        terms,
        normalizer,
        block,
    )
    if is_unset(constraints.prefix):
        return unforced
    last = ops.shape(constraints.prefix)[1] - 1
    tokens = ops.take(
        constraints.prefix, ops.minimum(search.index, last), axis=1
    )
    forced = forced_candidates(logits, search.live_log_probs, tokens, allowed)
    is_forced = (tokens != PAD_ID) & (length < constraints.max_lengths)  # [B]
    return tree.map_structure(
        lambda one, other: ops.where(is_forced[:, None], one, other),
        forced,
        unforced,
    )


def shift_right(tokens: Tensor) -> Tensor:
    """Returns the decoder's input for int32 [..., T] output tokens."""
    begin = ops.full_like(tokens[..., :1], BEGIN_ID)
    return ops.concatenate([begin, tokens[..., :-1]], axis=-1)


def last_tokens(tokens: Tensor, index: Tensor) -> Tensor:
    """Returns `shift_right(tokens)` at step `index`: int32 [B, K]."""
    previous = ops.take(tokens, ops.maximum(index - 1, 0), axis=2)
    return ops.where(index > 0, previous, BEGIN_ID)


def should_stop(
    config: BeamSearchConfig,
    length: Tensor,
    constraints: Constraints,
    best_live: Tensor,
    finished_scores: Tensor,
) -> Tensor:
    """Returns whether sentences meet `config.stop_criterion`: boolean [B].

    Those with terms wait only for `n_best`. `best_live` is float32 [B].
    """
    worst_needed = finished_scores[:, (config.n_best or config.beam_size) - 1]
    if config.stop_criterion != "exact":
        has_terms = config.word_edges is not None and ops.any(
            constraints.terms.least_tokens > 0, axis=(1, 2)
        )
        worst = finished_scores[:, -1]
        worst_needed = ops.where(has_terms, worst_needed, worst)
    if config.stop_criterion == "k_finished":
        enough = worst_needed > LEAST_POSSIBLE
    elif config.stop_criterion == "heuristic":
        enough = best_live / config.penalty(length) <= worst_needed
    else:  # "exact"
        rises = config.alpha > 0
        best_length = constraints.max_lengths if rises else length + 1
        enough = best_live / config.penalty(best_length) <= worst_needed
    # A grammar may leave no live beam, and NaN stays.
    return enough | ~(best_live > LEAST_POSSIBLE)


def is_running(search: BeamSearchState, capacity: int | Tensor) -> Tensor:
    """Returns whether a sentence is running and `capacity` is not reached."""
    return (search.index < capacity) & ~ops.all(search.stopped)
