"""How long a source may be."""


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
