"""Sentences of similar lengths together, answers in the sentences' order."""

# Source positions in a batch, padding counted.
BATCH_TOKENS = 2048


def in_batches(lengths, batch_tokens, ask, on_progress=None):
    """Asks for sentences batch by batch.

    Args:
        lengths: list of each sentence's number of ids; up to 1, the end id
            alone, there is nothing to ask.
        batch_tokens: positions in a batch, padding counted.
        ask: function of a list of sentences' numbers, that returns a list of
            their answers.
        on_progress: function of the number of sentences just done.

    Returns:
        A list of the answers in the order of `lengths`, None where there was
        nothing to ask.
    """
    answers = [None] * len(lengths)
    for batch in _by_length(lengths, batch_tokens):
        for number, answer in zip(batch, ask(batch)):
            answers[number] = answer
        if on_progress is not None:
            on_progress(len(batch))
    return answers


def _by_length(lengths, batch_tokens):
    """Yields lists of numbers, the longest sentences first."""
    numbers = [i for i, length in enumerate(lengths) if length > 1]
    numbers.sort(key=lambda i: lengths[i], reverse=True)
    start = 0
    while start < len(numbers):
        rows = max(batch_tokens // lengths[numbers[start]], 1)
        yield numbers[start : start + rows]
        start += rows
