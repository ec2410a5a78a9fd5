"""Table 3 of "Attention Is All You Need": newstest2013 English to German."""

import typing


class PaperRow(typing.NamedTuple):
    """What the paper prints of a row.

    Attributes:
        perplexity: per word piece.
        bleu: tokenised, compound-split.
        parameters: in millions, or None where the table leaves it out.
    """

    perplexity: float
    bleu: float
    parameters: int | None


# In the table's order, by the names of the presets.
PAPER = {
    "base": PaperRow(4.92, 25.8, 65),
    "A1": PaperRow(5.29, 24.9, None),
    "A4": PaperRow(5.00, 25.5, None),
    "A16": PaperRow(4.91, 25.8, None),
    "A32": PaperRow(5.01, 25.4, None),
    "B16": PaperRow(5.16, 25.1, 58),
    "B32": PaperRow(5.01, 25.4, 60),
    "C-n2": PaperRow(6.11, 23.7, 36),
    "C-n4": PaperRow(5.19, 25.3, 50),
    "C-n8": PaperRow(4.88, 25.5, 80),
    "C-d256": PaperRow(5.75, 24.5, 28),
    "C-d1024": PaperRow(4.66, 26.0, 168),
    "C-ff1024": PaperRow(5.12, 25.4, 53),
    "C-ff4096": PaperRow(4.75, 26.2, 90),
    "D-drop0": PaperRow(5.77, 24.6, None),
    "D-drop2": PaperRow(4.95, 25.5, None),
    "D-ls0": PaperRow(4.67, 25.3, None),
    "D-ls2": PaperRow(5.47, 25.7, None),
    "E-learned": PaperRow(4.92, 25.7, None),
    "big": PaperRow(4.33, 26.4, 213),
}

# What the paper says of the rows (section 6.2), as differences from base.
FINDINGS = {
    "A1": "One head is worse than eight.",
    "A32": "Too many heads are worse as well.",
    "B16": "A smaller d_k is worse.",
    "B32": "A smaller d_k is worse.",
    "C-n2": "Fewer layers are worse.",
    "C-n4": "Fewer layers are worse.",
    "C-n8": "More layers are better.",
    "C-d256": "A narrower model is worse.",
    "C-d1024": "A wider model is better.",
    "C-ff1024": "A narrower feed-forward layer is worse.",
    "C-ff4096": "A wider feed-forward layer is better.",
    "D-drop0": "Without dropout the model over-fits.",
    "D-drop2": "More dropout is no better.",
    "D-ls0": "Label smoothing costs perplexity and gains BLEU.",
    "D-ls2": "More label smoothing costs more perplexity.",
    "E-learned": "Learned positions are as good as sinusoids.",
    "big": "Bigger is better.",
}
