"""The entries of scores.json."""

# Two entries with the same of these are of the same evaluation.
_IDENTITY = (
    "metric",
    "signature",
    "dataset",
    "split",
    "sentences",
    "references",
    "reference_length",
    "beam_size",
    "alpha",
    "length_penalty",
    "step",
    "weights",
)


def with_record(records, record):
    """Adds an entry, in the place of an earlier one of the same evaluation.

    Where that has the same score, what the new one does not tell is kept
    (perplexity, say).

    Args:
        records: list of dict.
        record: dict.

    Returns:
        The new list.
    """
    for place, earlier in enumerate(records):
        if _is_same(earlier, record):
            if earlier["score"] == record["score"]:
                record = {**earlier, **record}
            return [*records[:place], record, *records[place + 1 :]]
    return [*records, record]


def _is_same(earlier, record):
    # An entry of an older version has not all of them.
    return all(earlier[n] == record.get(n) for n in _IDENTITY if n in earlier)
