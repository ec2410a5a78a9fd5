"""How long a source and what is added to it may be."""

# Room is made for every piece that an output may have.
MOST_EXTRA = 100_000

# Far more than text has: a run of unknown characters is one piece of any
# length, and takes the tokenizer time that grows with its square.
_CHARACTERS_OF_A_PIECE = 64


def source_limit(config, asked):
    """Returns how many ids of a source are kept, the end id counted.

    Args:
        config: TransformerConfig.
        asked: the limit asked for.

    Returns:
        That limit, or the number of learned positions when it is lower.
    """
    if config.positions == "learned":
        return min(asked, config.max_positions)
    return asked


def character_limit(tokens):
    """Returns how many characters of a text are looked at.

    Args:
        tokens: how many ids of it are kept.
    """
    return _CHARACTERS_OF_A_PIECE * tokens
