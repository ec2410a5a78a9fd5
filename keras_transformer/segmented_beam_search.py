"""Beam search in which finished sentences leave: see `beam_search`."""

from keras import ops, tree

from keras_transformer.beam_search import result, run, start, unfinished

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
