"""Beam search with a length penalty: section 6.1.

`beam_search` repeats a step in one loop; `translate_ids` has faster loops for a
Transformer. Letters: B sentences, K beams, V vocabulary, T capacity for tokens.
"""

import typing

from keras import ops, tree

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from keras_transformer.decoding.search_config import (
    IMPOSSIBLE,
    LEAST_POSSIBLE,
    BeamSearchConfig,
    is_unset,
    prepare_constraints,
)
from keras_transformer.decoding.terms import (
    TermBeams,
    advance_terms,
    prepare_terms,
)

# Logits per group in `_grouped_top_k`: nearly optimal for 10,000 to 40,000.
_GROUP_SIZE = 32


class BeamSearchResult(typing.NamedTuple):
    """The best hypotheses of each sentence, best first.

    Attributes:
        tokens: int32 [B, K, T], ending with the end id, then padding.
        scores: float32 [B, K], log-probability / length penalty, or -1e9 for
            missing hypotheses if fewer than K are possible.
        state: state of `step` when the sentence stopped.
    """

    tokens: typing.Any
    scores: typing.Any
    state: typing.Any


class BeamSearchState(typing.NamedTuple):
    """The search between two steps; live beams are unfinished hypotheses."""

    index: typing.Any  # int32 scalar, tokens produced so far
    constraints: typing.Any  # Constraints
    live_tokens: typing.Any  # int32 [B, K, T]
    live_log_probs: typing.Any  # float32 [B, K], best first
    parents: typing.Any  # int32 [B, K], the beam that each continues
    finished_tokens: typing.Any  # int32 [B, K, T], the best of all so far
    finished_scores: typing.Any  # float32 [B, K], best first
    stopped: typing.Any  # boolean [B]; all other sentences are running
    grammar_state: typing.Any  # or TermState of each live beam, [B, K, ...]
    step_state: typing.Any  # state of `step`, such as a DecoderState

    def result(self, state):
        """Returns the BeamSearchResult with this state."""
        return BeamSearchResult(
            self.finished_tokens, self.finished_scores, state
        )


class Candidates(typing.NamedTuple):
    """The best continuations of the live beams, all [B, K]."""

    tokens: typing.Any  # int32, of the K best that do not end, best first
    parents: typing.Any  # int32, the live beams that they continue
    log_probs: typing.Any  # float32
    end_log_probs: typing.Any  # float32, of each live beam if it ends now
    may_end: typing.Any  # boolean, whether its end is among the best candidates


def beam_search(step, state, constraints, max_length, config=None):
    """Finds the hypotheses with the highest penalized log-probability.

    Each step considers the 2K best candidates of the K live beams. Candidates
    that end join the finished hypotheses, of which the K best are kept; the K
    best other candidates become the live beams. At its maximum length a
    hypothesis can only end. A sentence stops when its best live log-probability
    / largest penalty ahead, an upper bound for all candidates, is not above the
    finished score of the last requested hypothesis. So stopping never changes
    the requested ones, except with another `config.stop_criterion`. The result
    of a sentence does not depend on the others.

    Args:
        step: function (tokens int32 [B, K], parents int32 [B, K], index int32
            scalar, state) -> (logits float [B, K, V], state). `tokens` are each
            beam's last token, `parents` the beam of the previous step that it
            continues, and `index` counts from 0.
        state: initial state of `step`; a nest of tensors of fixed shapes whose
            first axis is the sentence.
        constraints: Constraints, or just their `max_lengths`.
        max_length: T, an int or int32 scalar.
        config: BeamSearchConfig; None for the paper's.

    Returns:
        BeamSearchResult.
    """
    config = config or BeamSearchConfig()
    search = start_search(config, constraints, max_length, state)

    def advance(search):
        tokens = last_tokens(search.live_tokens, search.index)
        logits, step_state = step(
            tokens, search.parents, search.index, search.step_state
        )
        return (advance_search(config, search, logits, step_state),)

    (search,) = ops.while_loop(
        lambda search: is_running(search, max_length), advance, (search,)
    )
    return search.result(search.step_state)


def start_search(config, constraints, max_length, step_state):
    """Returns the BeamSearchState before the first step."""
    constraints, states = prepare_constraints(constraints, config, max_length)
    if config.word_edges is not None:
        terms, states = prepare_terms(constraints, config.word_edges)
        constraints = constraints._replace(terms=terms, copied_terms=())
    batch = ops.shape(constraints.max_lengths)[0]
    beams = config.beam_size
    tokens = ops.full((batch, beams, max_length), PAD_ID, dtype="int32")
    # All beams are equal at first, so only one is possible.
    first = ops.zeros((batch, 1), dtype="float32")
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


def advance_search(config, search, logits, step_state):
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
    newest = ops.arange(ops.shape(search.live_tokens)[2]) == search.index  # [T]
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


def constrained_candidates(config, search, logits):
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
    unforced = best_candidates(
        logits,
        search.live_log_probs,
        config.end_rank,
        config.suppress_tokens,
        too_short,
        allowed,
        terms,
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


def best_candidates(
    logits,
    live_log_probs,
    end_rank,
    suppress_tokens=(),
    too_short=None,
    allowed=None,
    terms=None,
):
    """Returns the best Candidates for logits [B, K, V] and live beams [B, K].

    A beam may end if its end is among the `end_rank` best, at most 2K, and its
    sentence is not `too_short`, boolean [B]. Only tokens that are `allowed`,
    boolean [B, K, V], and not in `suppress_tokens` may follow; the
    probabilities of other tokens do not change. With `terms`, TermBeams, the
    candidates are divided among banks, and beams end with all their terms.
    Missing candidates have log-probability IMPOSSIBLE.
    """
    logits = ops.cast(logits, "float32")
    beam_size, vocabulary = logits.shape[-2:]
    per_beam = min(2 * beam_size + len(suppress_tokens), vocabulary)
    if allowed is None:
        top_logits, top_tokens = _grouped_top_k(logits, per_beam)
        # The log-sum-exp is logit - log(softmax) of any token, here the most
        # likely. Softmax is one operation, log-sum-exp several passes over V.
        top_probability = ops.take_along_axis(
            ops.softmax(logits, axis=-1), top_tokens[..., :1], axis=-1
        )
        normalizer = (top_logits[..., :1] - ops.log(top_probability))[..., 0]
    else:
        normalizer = ops.logsumexp(logits, axis=-1)
        logits = ops.where(allowed, logits, IMPOSSIBLE)
        top_logits, top_tokens = _grouped_top_k(logits, per_beam)
    end_rank = min(end_rank, beam_size * per_beam)
    if terms is not None:
        top_logits, top_tokens = terms.add_tokens(
            logits, top_logits, top_tokens
        )
        per_beam = ops.shape(top_tokens)[-1]
    offsets = live_log_probs - normalizer
    batch = ops.shape(logits)[0]
    count = beam_size * per_beam
    all_log_probs = top_logits + offsets[..., None]
    all_log_probs = ops.reshape(all_log_probs, (batch, count))
    tokens = ops.reshape(top_tokens, (batch, count))
    for token in suppress_tokens:
        all_log_probs = ops.where(tokens == token, IMPOSSIBLE, all_log_probs)
    if too_short is not None:
        ends = too_short[:, None] & (tokens == END_ID)
        all_log_probs = ops.where(ends, IMPOSSIBLE, all_log_probs)
    end_log_probs = logits[..., END_ID] + offsets
    continuing = ops.where(tokens == END_ID, IMPOSSIBLE, all_log_probs)
    if terms is None:
        log_probs, order = ops.top_k(continuing, beam_size)
    else:
        order, missing = terms.select(continuing, top_tokens, beam_size)
        log_probs = ops.take_along_axis(continuing, order, axis=1)
        # Ends compete with the candidates that have all terms.
        all_log_probs = ops.where(missing == 0, all_log_probs, IMPOSSIBLE)
        end_log_probs = ops.where(terms.may_end(), end_log_probs, IMPOSSIBLE)
    best, _ = ops.top_k(all_log_probs, end_rank)
    may_end = (end_log_probs >= best[:, -1:]) & (END_ID not in suppress_tokens)
    if too_short is not None:
        may_end = may_end & ~too_short[:, None]
    return Candidates(
        tokens=gather_beams(tokens, order),
        parents=ops.cast(order // per_beam, "int32"),
        log_probs=log_probs,
        end_log_probs=end_log_probs,
        may_end=may_end,
    )


def forced_candidates(logits, live_log_probs, tokens, allowed=None):
    """Returns Candidates that continue the first beam with int32 [B] tokens."""
    logits = ops.cast(logits, "float32")
    normalizer = ops.logsumexp(logits, axis=-1)
    if allowed is not None:
        logits = ops.where(allowed, logits, IMPOSSIBLE)
    tokens = ops.broadcast_to(tokens[:, None], ops.shape(live_log_probs))
    chosen = ops.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    log_probs = live_log_probs + chosen - normalizer
    is_first = ops.arange(logits.shape[-2]) == 0
    return Candidates(
        tokens=tokens,
        parents=ops.zeros_like(tokens),
        log_probs=ops.where(is_first, log_probs, IMPOSSIBLE),
        end_log_probs=ops.full_like(log_probs, IMPOSSIBLE),
        may_end=ops.zeros_like(tokens, dtype="bool"),
    )


def _grouped_top_k(logits, count):
    """Returns the `count` highest of [B, K, V], and their int32 indices."""
    # The highest are in the `count` groups of neighbours with the highest
    # maxima, so that only these groups are sorted.
    vocabulary = logits.shape[-1]
    divisors = [n for n in range(1, 129) if vocabulary % n == 0]
    width = min(divisors, key=lambda n: abs(n - _GROUP_SIZE))
    groups = vocabulary // width
    if groups <= count or width == 1:
        values, indices = ops.top_k(logits, count)
        return values, ops.cast(indices, "int32")
    batch, beams = ops.shape(logits)[:2]
    grouped = ops.reshape(logits, (batch * beams, groups, width))
    _, best_groups = ops.top_k(ops.max(grouped, axis=-1), count)
    best_groups = ops.cast(best_groups, "int32")
    # Selects matrix rows: take_along_axis would transpose all logits.
    rows = best_groups + groups * ops.arange(batch * beams)[:, None]
    values = ops.take(ops.reshape(logits, (-1, width)), rows, axis=0)
    values = ops.reshape(values, (batch, beams, count * width))
    values, indices = ops.top_k(values, count)
    indices = ops.cast(indices, "int32")
    best_groups = ops.reshape(best_groups, (batch, beams, count))
    group = ops.take_along_axis(best_groups, indices // width, axis=-1)
    return values, group * width + indices % width


def shift_right(tokens):
    """Returns the decoder's input for int32 [..., T] output tokens."""
    begin = ops.full_like(tokens[..., :1], BEGIN_ID)
    return ops.concatenate([begin, tokens[..., :-1]], axis=-1)


def last_tokens(tokens, index):
    """Returns `shift_right(tokens)` at step `index`: int32 [B, K]."""
    previous = ops.take(tokens, ops.maximum(index - 1, 0), axis=2)
    return ops.where(index > 0, previous, BEGIN_ID)


def gather_beams(nest, parents):
    """Selects parent beams, int32 [B, K], in a nest of [B, K, ...]."""

    def gather(values):
        # Fewer and faster operations than those of take_along_axis.
        batch, count, *shape = ops.shape(values)
        rows = parents + count * ops.arange(batch)[:, None]
        values = ops.reshape(values, (batch * count, *shape))
        return ops.take(values, rows, axis=0)

    return tree.map_structure(gather, nest)


def should_stop(config, length, constraints, best_live, finished_scores):
    """Returns whether sentences meet `config.stop_criterion`: boolean [B].

    Those with terms wait only for `n_best`. `best_live` is float32 [B].
    """
    worst_needed = finished_scores[:, (config.n_best or config.beam_size) - 1]
    if config.stop_criterion != "exact":
        has_terms = config.word_edges is not None and ops.any(
            constraints.terms.least_tokens > 0, axis=-1
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
    # A grammar may leave no live beam.
    return enough | (best_live <= LEAST_POSSIBLE)


def is_running(search, capacity):
    """Returns whether a sentence is running and `capacity` is not reached."""
    return (search.index < capacity) & ~ops.all(search.stopped)
