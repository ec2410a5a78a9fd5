"""Which id of theirs is which of ours, from the files alone."""

import json

import numpy as np


def their_ids(folder, side):
    """Returns int [V]: their id of each of ours, -1 for our padding.

    Written from the rule: padding, unknown, begin (their <pad>) and end, then
    the others in their order.
    """
    name = "vocab.json"
    if side == "target" and (folder / "target_vocab.json").exists():
        name = "target_vocab.json"
    table = json.loads((folder / name).read_text("utf-8"))
    special = [table["<unk>"], table["<pad>"], table["</s>"]]
    others = [number for number in sorted(table.values())]
    return np.array([-1, *special, *(x for x in others if x not in special)])


def our_ids(folder, side):
    """Returns int [V - 1]: the same, the other way."""
    theirs = their_ids(folder, side)
    found = np.zeros(len(theirs) - 1, np.int32)
    found[theirs[1:]] = np.arange(1, len(theirs))
    return found
