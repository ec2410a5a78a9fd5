"""Beam search with a length penalty: section 6.1.

One step, `_advance`, and three drivers around it: `beam_search` is one loop;
`bucketed_beam_search` a few loops of fixed shapes, for compilers; in
`shrinking_batch_beam_search` finished sentences leave the batch.

Letters: B sentences, K beams, V vocabulary, T tokens there is capacity for.
"""

import functools
import typing

from keras import ops, tree

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from keras_transformer.decoding.candidates import (
    IMPOSSIBLE,
    allowed_candidates,
)
from keras_transformer.decoding.rules import (
    BeamSearchConfig,
    prepared,
)

# What it costs that sentences leave the batch, in steps of the whole batch:
# what was fastest at 8, 32 and 96 sentences.
_LEAVING_COST = 0.5


class BeamSearchResult(typing.NamedTuple):
    """The best hypotheses of each sentence, best first.

    Attributes:
        tokens: int32 [B, K, T], ending with the end id, then padding.
        scores: float32 [B, K], log-probability / length penalty; -1e9 where
            there are fewer than K possible hypotheses.
        state: what `step` carried, as it was when the sentence stopped.
    """

    tokens: typing.Any
    scores: typing.Any
    state: typing.Any


class _Search(typing.NamedTuple):
    """The search between two steps; the live beams are unfinished hypotheses.

    Attributes:
        index: int32 scalar, tokens produced so far.
        constraints: Constraints.
        live_tokens: int32 [B, K, T].
        live_log_probs: float32 [B, K], best first.
        parents: int32 [B, K], the beam that each live beam continues.
        done_tokens: int32 [B, K, T], the best finished hypotheses.
        done_scores: float32 [B, K], best first.
        stopped: boolean [B]: no live beam can still enter the finished ones.
        grammar: the grammar's state of each live beam, nest of [B, K, ...].
        state: whatever `step` carries.
    """

    index: typing.Any
    constraints: typing.Any
    live_tokens: typing.Any
    live_log_probs: typing.Any
    parents: typing.Any
    done_tokens: typing.Any
    done_scores: typing.Any
    stopped: typing.Any
    grammar: typing.Any
    state: typing.Any

    def result(self):
        """Returns the BeamSearchResult."""
        return BeamSearchResult(self.done_tokens, self.done_scores, self.state)


def beam_search(step, state, constraints, max_length, rules=None):
    """Finds the hypotheses with the highest penalised log-probability.

    At each step the 2K best candidates of the K live beams are looked at:
    those that end join the finished hypotheses, of which the K best are
    kept and never changed; the K best others live on. At its maximum
    length a hypothesis can only end. A sentence stops when its best live
    log-probability / penalty at its maximum length, which no candidate can
    exceed, is not above the finished score of the last hypothesis that is
    wanted: so stopping never changes the result, unless `rules.stop` says
    otherwise. Neither do the other sentences.

    Args:
        step: function (tokens int32 [B, K], parents int32 [B, K], index
            int32 scalar, state) -> (logits float [B, K, V], state). `tokens`
            are each beam's last token, `parents` the beam of the step before
            that it continues, and `index` counts from 0.
        state: what `step` carries along; a nest of tensors of fixed shapes,
            with the sentences in front.
        constraints: Constraints, or only its `max_lengths`.
        max_length: T, capacity for tokens: a number, or an int32 scalar.
        rules: BeamSearchConfig; None for the paper's.

    Returns:
        BeamSearchResult.

    Raises:
        ValueError: there is a grammar without its state, or a state without
            its grammar.
    """
    return bucketed_beam_search(
        step,
        state,
        constraints,
        [max_length],
        rules or BeamSearchConfig(),
        None,
    )


def bucketed_beam_search(step, state, constraints, capacities, rules, grow):
    """The same search, in as many loops as there are capacities.

    Each loop has fixed shapes, which compilers need, and its steps look at a
    cache that is not much longer than what is filled of it.

    Args:
        step: as for `beam_search`.
        state: the same, with capacity for `capacities[0]` steps.
        constraints: Constraints, or only its `max_lengths`.
        capacities: list of steps, rising; the last is T.
        rules: BeamSearchConfig.
        grow: function (state, capacity) -> the state with that capacity.

    Returns:
        BeamSearchResult.
    """
    search = _start(rules, constraints, capacities[-1], state)
    for number, capacity in enumerate(capacities):
        if number:
            search = search._replace(state=grow(search.state, capacity))
        condition = functools.partial(_unfinished, end=capacity)
        search = _run(rules, step, search, condition)
    return search.result()


def shrinking_batch_beam_search(
    step,
    state,
    constraints,
    max_length,
    rules,
    segment,
    grow,
    remains=lambda state: (),
):
    """The same search, in which finished sentences leave the batch.

    After at most `segment` steps the sentences that have stopped leave, and
    the state gets capacity for the next steps, so that a step's work follows
    what is left and what is filled. They leave sooner where the work done for
    them in the rest of the segment would exceed that of their leaving. The
    shapes change meanwhile: it runs inside a graph of TensorFlow whose number
    of sentences is open.

    Args:
        step: as for `beam_search`.
        state: the same, with capacity for `segment` steps.
        constraints: Constraints, or only its `max_lengths`.
        max_length: T, an int32 scalar tensor.
        rules: BeamSearchConfig.
        segment: the most steps between two times that sentences leave.
        grow: as for `bucketed_beam_search`; the capacity is an int32 scalar.
        remains: function state -> what is kept of it of a sentence that
            leaves: a nest of tensors of fixed shapes, nothing by default.

    Returns:
        BeamSearchResult, with what remains of the state.
    """
    search = _start(rules, constraints, max_length, state)
    rows = ops.arange(ops.shape(search.stopped)[0])

    def results(search):
        found = search.result()
        return found._replace(state=remains(found.state))

    def advance(found, rows, search):
        capacity = ops.minimum(search.index + segment, max_length)
        search = _run(
            rules, step, search, lambda search: _pays(search, capacity)
        )
        found = tree.map_structure(
            lambda whole, part: ops.scatter_update(whole, rows[:, None], part),
            found,
            results(search),
        )
        (kept,) = ops.nonzero(ops.logical_not(search.stopped))
        kept = ops.cast(kept, "int32")
        capacity = ops.minimum(search.index + segment, max_length)
        search = _keep(search, kept)
        search = search._replace(state=grow(search.state, capacity))
        return found, ops.take(rows, kept), search

    found, _, _ = ops.while_loop(
        lambda found, rows, search: _unfinished(search, max_length),
        advance,
        (results(search), rows, search),
    )
    return found


def _start(rules, constraints, max_length, state):
    """Returns the search before its first step."""
    constraints, grammar = prepared(constraints, rules, max_length)
    batch = ops.shape(constraints.max_lengths)[0]
    beams = rules.beam_size
    tokens = ops.full((batch, beams, max_length), PAD_ID, dtype="int32")
    # All beams are the same at first: only the first one counts.
    others = ops.full((batch, beams - 1), IMPOSSIBLE, dtype="float32")
    first = ops.zeros((batch, 1), dtype="float32")
    return _Search(
        index=ops.convert_to_tensor(0, "int32"),
        constraints=constraints,
        live_tokens=tokens,
        live_log_probs=ops.concatenate([first, others], axis=1),
        parents=ops.zeros((batch, beams), dtype="int32"),
        done_tokens=tokens,
        done_scores=ops.full((batch, beams), IMPOSSIBLE, dtype="float32"),
        stopped=ops.zeros((batch,), dtype="bool"),
        grammar=tree.map_structure(
            lambda each: ops.repeat(each[:, None], beams, axis=1), grammar
        ),
        state=state,
    )


def _run(rules, step, search, condition):
    """Advances while `condition`, a function of the search, holds."""
    (search,) = ops.while_loop(
        condition, lambda search: (_advance(rules, step, search),), (search,)
    )
    return search


def _advance(rules, step, search):
    """Takes one step: asks for every live beam's next token, keeps the best.

    Hypotheses that end here compete with the finished ones; the K best
    candidates that do not end are the next live beams.
    """
    index, constraints = search.index, search.constraints
    tokens = _last_tokens(search.live_tokens, index)  # [B, K]
    logits, state = step(tokens, search.parents, index, search.state)
    nexts = allowed_candidates(
        *(logits, search.live_log_probs, index),
        *(rules, constraints, search.grammar),
    )  # all of [B, K]
    length = index + 1
    at_limit = length >= constraints.max_lengths  # [B]
    may_end = ops.logical_and(
        nexts.end_log_probs > 0.5 * IMPOSSIBLE,
        ops.logical_or(nexts.may_end, at_limit[:, None]),
    )  # [B, K]
    # A stopped sentence keeps what it has: a tie must not change it.
    may_end = ops.logical_and(may_end, ops.logical_not(search.stopped)[:, None])
    end_scores = ops.where(
        may_end, nexts.end_log_probs / rules.penalty(length), IMPOSSIBLE
    )  # [B, K]
    scores = ops.concatenate([search.done_scores, end_scores], axis=1)
    done_scores, order = ops.top_k(scores, rules.beam_size)  # [B, K] of [B, 2K]
    here = ops.arange(ops.shape(search.live_tokens)[2]) == index  # [T]
    ended = ops.where(here, END_ID, search.live_tokens)
    both = ops.concatenate([search.done_tokens, ended], axis=1)  # [B, 2K, T]
    inherited, grammar = tree.map_structure(
        lambda each: _inherited(each, nexts.parents),
        (search.live_tokens, search.grammar),
    )  # [B, K, T], and nest of [B, K, ...]
    if rules.grammar is not None:
        grammar = rules.grammar.advance(grammar, nexts.tokens)
    stopped = ops.logical_or(search.stopped, at_limit)
    longest = length if rules.stop == "likely" else constraints.max_lengths
    may_stop = _may_stop(rules, longest, nexts.log_probs[:, 0], done_scores)
    return _Search(
        index=length,
        constraints=constraints,
        live_tokens=ops.where(here, nexts.tokens[..., None], inherited),
        live_log_probs=nexts.log_probs,
        parents=nexts.parents,
        done_tokens=ops.take_along_axis(both, order[..., None], axis=1),
        done_scores=done_scores,
        stopped=ops.logical_or(stopped, may_stop),
        grammar=grammar,
        state=state,
    )


def _inherited(values, parents):
    """Returns what the beams that are continued have: [B, K, ...]."""
    shape = (*ops.shape(parents), *[1] * (len(values.shape) - 2))
    return ops.take_along_axis(values, ops.reshape(parents, shape), axis=1)


def _may_stop(rules, longest, best_live, done_scores):
    """Whether a sentence may stop: boolean [B].

    Args:
        rules: BeamSearchConfig.
        longest: int32 [B] or scalar, the length that the best live beam is
            thought to end with.
        best_live: float32 [B], its log-probability.
        done_scores: float32 [B, K].
    """
    if rules.stop == "never":
        return ops.zeros_like(best_live, dtype="bool")
    # A grammar may leave no live beam.
    none_lives = best_live <= 0.5 * IMPOSSIBLE
    if rules.stop == "finished":
        enough = done_scores[:, -1] > 0.5 * IMPOSSIBLE
    else:
        bound = best_live / rules.penalty(longest)
        wanted = rules.n_best if rules.stop == "certain" else 0
        last = (wanted or rules.beam_size) - 1
        enough = bound <= done_scores[:, last]
    return ops.logical_or(enough, none_lives)


def _unfinished(search, end):
    """Whether a sentence is unfinished and `end` tokens are not yet there."""
    live = ops.logical_not(ops.all(search.stopped))
    return ops.logical_and(search.index < end, live)


def _pays(search, capacity):
    """Whether another step comes before sentences leave: boolean scalar."""
    share_stopped = ops.mean(ops.cast(search.stopped, "float32"))
    in_vain = share_stopped * ops.cast(capacity - search.index, "float32")
    return ops.logical_and(
        _unfinished(search, capacity), in_vain <= _LEAVING_COST
    )


def _keep(search, kept):
    """Returns the search of the sentences whose numbers are kept."""
    # The counter has no sentences in front.
    rest = search._replace(index=())
    rest = tree.map_structure(lambda each: ops.take(each, kept, axis=0), rest)
    return rest._replace(index=search.index)


def _last_tokens(live_tokens, index):
    previous = ops.take(live_tokens, ops.maximum(index - 1, 0), axis=2)
    return ops.where(index > 0, previous, BEGIN_ID)
