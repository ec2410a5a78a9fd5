"""Beam search whose caches grow by stages: see `beam_search`."""

import functools

from keras_transformer.beam_search import result, run, start, unfinished


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
