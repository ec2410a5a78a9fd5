"""What decides the pairs beside the lines and the models."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class SynthesisOptions:
    """How lines become pairs; other options make other pairs.

    Attributes:
        way: "forward", where the lines are sources and the models' answers
            become targets, or "backward", where they are targets and the
            answers become sources.
        source_language: code, of the pairs.
        target_language: code, of the pairs.
        decoding: "beam" or "sample".
        beam_size: of a search; None for the model's own, here and below.
        alpha: exponent of a search's length penalty.
        max_output_extra: pieces that an answer may have more than its line.
        stop: when a search ends.
        temperature: logits are divided by it before a draw.
        top_k: draws are from so many of the likeliest pieces; 0 for all.
        top_p: draws are from the likeliest that together have this
            probability.
        best_of: answers of a line, of which the one most like its reference
            is taken; 1 for the first, whatever the reference.
        metric: "bleu" or "chrf": what they are compared by.
        tokenize: sacreBLEU's tokeniser, for BLEU.
        seed: line N, from 0, has the seed `seed` + N.
        tag: a word put in front of the source; "" for none.
        word_drop: probability with which a word of the source is left out.
        word_swap: places that a word of the source moves at most.
        max_pieces: lines of more pieces, the end counted, are left out.
        max_ratio: pairs of which one side has more than so many times the
            pieces of the other are left out; None for no such filter.
        min_score: pairs whose answer has a lower log-probability a piece, the
            end counted, are left out; None for no such filter.
        keep_duplicates: whether a pair may be there twice.
        shard_lines: lines of a shard.
        batch_tokens: source pieces in a batch, padding counted.
        threads: that a worker computes with.
    """

    way: str
    source_language: str
    target_language: str
    decoding: str = "beam"
    beam_size: int | None = None
    alpha: float | None = None
    max_output_extra: int | None = None
    stop: str | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    best_of: int = 1
    metric: str = "bleu"
    tokenize: str = "13a"
    seed: int = 1
    tag: str = ""
    word_drop: float = 0.0
    word_swap: int = 0
    max_pieces: int = 256
    max_ratio: float | None = None
    min_score: float | None = None
    keep_duplicates: bool = False
    shard_lines: int = 1000
    # Both may decide the last bit of a score.
    batch_tokens: int = 2048
    threads: int = 1

    @property
    def direction(self):
        """The languages that the models translate from and into."""
        pair = self.source_language, self.target_language
        return pair if self.way == "forward" else pair[::-1]

    @property
    def search(self):
        """What was asked of the search, as IdTranslator takes it."""
        names = ("beam_size", "alpha", "max_output_extra", "stop")
        values = {name: getattr(self, name) for name in names}
        return {name: each for name, each in values.items() if each is not None}
