"""Which id of Hugging Face's is which of ours, from the files alone."""

import json

import numpy as np


def hugging_face_ids(folder, side):
    """Returns int [V]: their id for each of ours, -1 for our padding.

    Ours are padding, unknown, begin (their <pad>) and end, then the others in
    their order.
    """
    name = "vocab.json"
    if side == "target" and (folder / "target_vocab.json").exists():
        name = "target_vocab.json"
    table = json.loads((folder / name).read_text("utf-8"))
    special = [table["<unk>"], table["<pad>"], table["</s>"]]
    others = [row for row in sorted(table.values()) if row not in special]
    return np.array([-1, *special, *others])
