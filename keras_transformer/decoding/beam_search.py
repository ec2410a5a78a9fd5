"""Beam search with a length penalty: section 6.1."""

import functools
import typing

from keras import ops, tree

from keras_transformer.decoding.candidates import (
    IMPOSSIBLE,
    best_continuations,
    forced_continuations,
)
from keras_transformer.decoding.rules import SearchRules
from keras_transformer.special_ids import BEGIN_ID, END_ID, PAD_ID


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


class Demands(typing.NamedTuple):
    """What is asked of each sentence's hypotheses; sentences in front.

    Attributes:
        max_lengths: int32 [B], at least 1: tokens, the end id counted. At
            its maximum, or where there is no more room, a hypothesis can
            only end.
        min_lengths: int32 [B], the same count, or (): none ends before.
        prefix: int32 [B, P], 0 after each one's end, or (): what hypotheses
            begin with, as far as their maximum length lets them.
    """

    max_lengths: typing.Any
    min_lengths: typing.Any = ()
    prefix: typing.Any = ()


class _Search(typing.NamedTuple):
    """The search between two steps; the live beams are unfinished hypotheses.

    Attributes:
        index: int32 scalar, tokens produced so far.
        demands: Demands.
        live_tokens: int32 [B, K, T].
        live_log_probs: float32 [B, K], best first.
        parents: int32 [B, K], the beam that each live beam continues.
        done_tokens: int32 [B, K, T], the best finished hypotheses.
        done_scores: float32 [B, K], best first.
        stopped: boolean [B]: no live beam can still enter the finished ones.
        state: whatever `step` carries.
    """

    index: typing.Any
    demands: typing.Any
    live_tokens: typing.Any
    live_log_probs: typing.Any
    parents: typing.Any
    done_tokens: typing.Any
    done_scores: typing.Any
    stopped: typing.Any
    state: typing.Any


def beam_search(step, state, demands, max_length, rules=None):
    """Finds the hypotheses with the highest penalised log-probability.

    At each step the 2K best continuations of the K live beams are looked at:
    those that end join the finished hypotheses, of which the K best are
    kept and never changed; the K best others live on. At its maximum
    length a hypothesis can only end. A sentence stops when its best live
    log-probability / penalty at its maximum length, which no continuation
    can exceed, is not above the finished score of the last hypothesis that
    is wanted: so stopping never changes the result, unless `rules.stop`
    says otherwise. Neither do the other sentences.

    Letters: B sentences, K beams, V vocabulary, T max_length.

    Args:
        step: function (tokens int32 [B, K], parents int32 [B, K], index
            int32 scalar, state) -> (logits float [B, K, V], state). `tokens`
            are each beam's last token, `parents` the beam of the step before
            that it continues, and `index` counts from 0.
        state: what `step` carries along; a nest of tensors of fixed shapes,
            with the sentences in front.
        demands: Demands, or only its `max_lengths`.
        max_length: T, room for tokens: a number, or an int32 scalar.
        rules: SearchRules; None for the paper's.

    Returns:
        BeamSearchResult.
    """
    rules = rules or SearchRules()
    search = start(rules, demands, max_length, state)
    search = run(
        rules, step, search, lambda search: unfinished(search, max_length)
    )
    return result(search)


def start(rules, demands, max_length, state):
    """Returns the search before its first step; see `beam_search`."""
    if not isinstance(demands, Demands):
        demands = Demands(demands)
    demands = Demands(*[_as_int32(each) for each in demands])
    # There a hypothesis must end, or none would be there to return.
    demands = demands._replace(
        max_lengths=ops.minimum(demands.max_lengths, max_length)
    )
    batch = ops.shape(demands.max_lengths)[0]
    if not _is_left_out(demands.prefix):
        demands = demands._replace(prefix=_ended(demands.prefix))
    beams = rules.beam_size
    tokens = ops.full((batch, beams, max_length), PAD_ID, dtype="int32")
    # All beams are the same at first: only the first one counts.
    others = ops.full((batch, beams - 1), IMPOSSIBLE, dtype="float32")
    first = ops.zeros((batch, 1), dtype="float32")
    return _Search(
        index=ops.convert_to_tensor(0, "int32"),
        demands=demands,
        live_tokens=tokens,
        live_log_probs=ops.concatenate([first, others], axis=1),
        parents=ops.zeros((batch, beams), dtype="int32"),
        done_tokens=tokens,
        done_scores=ops.full((batch, beams), IMPOSSIBLE, dtype="float32"),
        stopped=ops.zeros((batch,), dtype="bool"),
        state=state,
    )


def unfinished(search, end):
    """Whether there is more to do: boolean scalar.

    Neither have all sentences stopped, nor were `end` tokens produced.
    """
    going = ops.logical_not(ops.all(search.stopped))
    return ops.logical_and(search.index < end, going)


def run(rules, step, search, goes_on):
    """Advances as long as `goes_on`, a function of the search, says so."""
    (search,) = ops.while_loop(
        goes_on,
        lambda search: (_advance(rules, step, search),),
        (search,),
    )
    return search


def result(search):
    """Returns the BeamSearchResult of a search."""
    return BeamSearchResult(
        search.done_tokens, search.done_scores, search.state
    )


def _advance(rules, step, search):
    index, demands = search.index, search.demands
    tokens = _last_tokens(search.live_tokens, index)
    logits, state = step(tokens, search.parents, index, search.state)
    length = index + 1
    nexts = _continuations(rules, demands, logits, search.live_log_probs, index)
    at_limit = length >= demands.max_lengths
    possible = ops.logical_and(
        search.live_log_probs > 0.5 * IMPOSSIBLE,
        ops.logical_or(nexts.may_end, at_limit[:, None]),
    )
    endings = ops.where(
        possible, nexts.end_log_probs / rules.penalty(length), IMPOSSIBLE
    )
    # A stopped sentence keeps what it has: a tie must not change it.
    endings = ops.where(search.stopped[:, None], IMPOSSIBLE, endings)
    done_scores, order = ops.top_k(
        ops.concatenate([search.done_scores, endings], axis=1), rules.beam_size
    )
    here = ops.arange(ops.shape(search.live_tokens)[2]) == index
    stopped = ops.logical_or(search.stopped, at_limit)
    stopped = ops.logical_or(
        stopped, _may_stop(rules, demands, nexts.log_probs[:, 0], done_scores)
    )
    return _Search(
        index=length,
        demands=demands,
        live_tokens=_follow(nexts, search.live_tokens, here),
        live_log_probs=nexts.log_probs,
        parents=nexts.parents,
        done_tokens=_join(order, search, here),
        done_scores=done_scores,
        stopped=stopped,
        state=state,
    )


def _may_stop(rules, demands, best_live, done_scores):
    if rules.stop == "finished":
        return done_scores[:, -1] > 0.5 * IMPOSSIBLE
    if rules.stop == "never":
        return ops.zeros_like(best_live, dtype="bool")
    bound = best_live / rules.penalty(demands.max_lengths)
    last = (rules.n_best or rules.beam_size) - 1
    return bound <= done_scores[:, last]


def _continuations(rules, demands, logits, live_log_probs, index):
    too_short = None
    if not _is_left_out(demands.min_lengths):
        # At its maximum length a hypothesis ends all the same.
        too_short = index + 1 < demands.min_lengths
    free = best_continuations(
        logits, live_log_probs, rules.end_rank, rules.never, too_short
    )
    if _is_left_out(demands.prefix):
        return free
    last = ops.shape(demands.prefix)[1] - 1
    forced = ops.take(demands.prefix, ops.minimum(index, last), axis=1)
    within = forced != PAD_ID
    within = ops.logical_and(within, index + 1 < demands.max_lengths)
    only = forced_continuations(logits, live_log_probs, forced)
    return tree.map_structure(
        lambda one, other: ops.where(within[:, None], one, other), only, free
    )


def _follow(nexts, live_tokens, here):
    inherited = ops.take_along_axis(
        live_tokens, nexts.parents[..., None], axis=1
    )
    return ops.where(here, nexts.tokens[..., None], inherited)


def _join(order, search, here):
    """The best of the finished hypotheses and of those that end here."""
    ended = ops.where(here, END_ID, search.live_tokens)
    both = ops.concatenate([search.done_tokens, ended], axis=1)
    return ops.take_along_axis(both, order[..., None], axis=1)


def _last_tokens(live_tokens, index):
    previous = ops.take(live_tokens, ops.maximum(index - 1, 0), axis=2)
    return ops.where(index > 0, previous, BEGIN_ID)


def _ended(prefix):
    """Adds a column of padding to int32 [B, P]: from there on all is free."""
    end = ops.full((ops.shape(prefix)[0], 1), PAD_ID, dtype="int32")
    return ops.concatenate([prefix, end], axis=1)


def _is_left_out(values):
    return isinstance(values, tuple) and not values


def _as_int32(values):
    return values if _is_left_out(values) else ops.cast(values, "int32")


def staged_beam_search(step, state, demands, rooms, rules, grow):
    """The same search, in as many loops as there are rooms.

    Each loop has fixed shapes, as compilers like it, and its steps look at a
    cache that is not much longer than what is filled of it.

    Args:
        step: as for `beam_search`.
        state: the same, with room for `rooms[0]` steps.
        demands: Demands, or only its `max_lengths`.
        rooms: list of steps there is room for, rising; the last is T.
        rules: SearchRules.
        grow: function (state, room) -> the state with so much room.

    Returns:
        BeamSearchResult.
    """
    search = start(rules, demands, rooms[-1], state)
    for number, room in enumerate(rooms):
        if number:
            search = search._replace(state=grow(search.state, room))
        goes_on = functools.partial(unfinished, end=room)
        search = run(rules, step, search, goes_on)
    return result(search)


# What it costs that sentences leave, in steps of the whole batch: what was
# fastest at 8, 32 and 96 sentences.
_LEAVING = 0.5


def segmented_beam_search(
    step,
    state,
    demands,
    max_length,
    rules,
    segment,
    grow,
    remains=lambda state: (),
):
    """The same search, in which finished sentences leave.

    After `segment` steps at most the sentences that have stopped leave the
    batch, and the state gets room for the next steps, so that a step's work
    follows what is left and what is filled. They leave sooner where the work
    done for them in the rest of the segment would be more than that of their
    leaving. For all that the shapes change: it runs inside a graph of
    TensorFlow whose number of sentences is open.

    Args:
        step: as for `beam_search`.
        state: the same, with room for `segment` steps.
        demands: Demands, or only its `max_lengths`.
        max_length: T, an int32 scalar tensor.
        rules: SearchRules.
        segment: steps between two leavings, at most.
        grow: function (state, room int32 scalar) -> the state with so much
            room.
        remains: function state -> what of it is kept of a sentence that
            leaves: a nest of tensors of fixed shapes, nothing by default.

    Returns:
        BeamSearchResult, with what remains of the state.
    """
    search = start(rules, demands, max_length, state)
    rows = ops.arange(ops.shape(search.stopped)[0])

    def results(search):
        found = result(search)
        return found._replace(state=remains(found.state))

    def advance(found, rows, search):
        room = ops.minimum(search.index + segment, max_length)
        search = run(rules, step, search, lambda search: _pays(search, room))
        found = tree.map_structure(
            lambda whole, part: ops.scatter_update(whole, rows[:, None], part),
            found,
            results(search),
        )
        (kept,) = ops.nonzero(ops.logical_not(search.stopped))
        kept = ops.cast(kept, "int32")
        room = ops.minimum(search.index + segment, max_length)
        return found, ops.take(rows, kept), _keep(search, kept, room, grow)

    found, _, _ = ops.while_loop(
        lambda found, rows, search: unfinished(search, max_length),
        advance,
        (results(search), rows, search),
    )
    return found


def _pays(search, room):
    """Whether another step comes before sentences leave: boolean scalar."""
    share_stopped = ops.mean(ops.cast(search.stopped, "float32"))
    in_vain = share_stopped * ops.cast(room - search.index, "float32")
    return ops.logical_and(unfinished(search, room), in_vain <= _LEAVING)


def _keep(search, kept, room, grow):
    # The counter has no sentences in front.
    rest = search._replace(index=())
    rest = tree.map_structure(lambda each: ops.take(each, kept, axis=0), rest)
    return rest._replace(index=search.index, state=grow(rest.state, room))
