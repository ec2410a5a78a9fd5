"""The configuration of a model: architecture, training and decoding."""

import dataclasses
import json

from keras_transformer.fields import (
    MAX_ALPHA,
    MAX_BEAMS,
    MAX_EXTRA_TOKENS,
    ROLES,
    amount,
    checked_type,
    choice,
    count,
    count_or_zero,
    positive,
    probability,
    switch,
    vocabulary,
    vocabulary_or_zero,
    width,
)
from keras_transformer.presets import PRESETS

# Special ids, the same in every vocabulary.
PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3

# Never generated: padding would look like an end, and an unknown token is of no
# use to a reader.
FORBIDDEN_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Architecture, training and decoding options of a Transformer.

    The defaults are the paper's base model ("Attention Is All You Need",
    sections 3, 5 and 6); `preset` returns the named configurations and
    `field_names` lists the fields by role. A field of the wrong type or out of
    range raises ValueError.

    Attributes:
        vocabulary_size: V, the target (or joint) vocabulary, including pad (0),
            unknown (1), begin (2) and end (3).
        source_vocabulary_size: size of a separate source vocabulary with the
            same four special ids; 0 for a joint vocabulary, as in the paper.
        num_layers: N, encoder layers; also decoder layers by default.
        num_decoder_layers: decoder layers; 0 for `num_layers`. A deep encoder
            with a shallow decoder decodes faster (Kasai et al. 2021, arXiv
            2006.10369).
        d_model: D, width of the residual stream.
        d_ff: F, inner width of the feed-forward layers.
        num_heads: H, attention heads.
        d_k: query and key width per head; independent of d_model / num_heads
            (Table 3, rows A and B).
        d_v: value width per head.
        norm: "post" (section 3.1, LayerNorm after the residual sum) or "pre"
            (before the sub-layer, with a final norm on each stack).
        layer_norm_epsilon: added to the variance.
        activation: of the feed-forward layer: "relu" (section 3.3), "gelu" or
            "silu".
        attention_bias: whether attention projections have biases.
        share_embeddings: "all" (section 3.4: source, target and pre-softmax
            matrix are one; needs a joint vocabulary), "target-softmax" or
            "none".
        output_bias: whether logits have a bias; the paper has none.
        positions: "sinusoidal" (section 3.5), "learned" (Table 3, row E) or,
            for parsers, "words" (half of the width encodes the token's position
            and half its word's) or "next-word" (also adds the encoder states of
            the next word to the decoder's input).
        sinusoid_rates: angular rate of sinusoid pair i: "paper" is
            10000^(-2i/D), section 3.5; "marian" is 10000^(-i/(D/2-1)), as in
            Marian, fairseq and tensor2tensor.
        max_positions: rows of the learned position table.
        first_source_word_id: for word positions, the first source id that
            begins a word.
        first_target_word_id: for word positions, the first target id that
            stands for a word.
        attention_window: r of restricted self-attention (section 4): each
            position attends to the r nearest on either side, so time and memory
            grow with r instead of the length; 0 is off.
        dropout: P_drop, on each sub-layer's output and on the embedding sums.
        attention_dropout: on attention weights.
        activation_dropout: after the feed-forward activation.
        label_smoothing: epsilon_ls.
        r_drop: alpha of R-Drop (Liang et al. 2021, arXiv 2106.14448), the
            weight of the divergence between two passes with different dropout.
            0 is off; the authors use 5 for translation.
        learning_rate_scale: factor on the paper's schedule.
        warmup_steps: of the schedule.
        cooldown_steps: final steps of `train_steps` over which the rate falls
            linearly to 0; 0 is off.
        adam_beta_1: Adam's beta 1.
        adam_beta_2: Adam's beta 2.
        adam_epsilon: Adam's epsilon.
        clip_norm: largest global norm of the gradient; 0 is off.
        train_steps: updates in a full run.
        batch_tokens: maximum target tokens (and source tokens) per update, over
            all replicas.
        average_checkpoints: number of last checkpoints averaged into the final
            weights (section 6.1); 0 or 1 is off. With `cooldown_steps` only
            checkpoints of its last third are averaged.
        beam_size: K, beams in decoding (section 6.1).
        alpha: exponent of the length penalty.
        length_penalty: "gnmt", ((5 + length) / 6)^alpha, or "power",
            length^alpha. Length counts the end token.
        stop_criterion: "exact", "k_finished" or "heuristic"; see
            `BeamSearchConfig`.
        max_extra_tokens: an output has at most source length + this many
            tokens.

    Raises:
        ValueError: a field has a wrong type or lies outside its range.
    """

    vocabulary_size: int = vocabulary("architecture")
    source_vocabulary_size: int = vocabulary_or_zero("architecture")
    num_layers: int = count("architecture", 6)
    num_decoder_layers: int = count_or_zero("architecture", 0)
    d_model: int = width(512)
    d_ff: int = width(2048)
    num_heads: int = count("architecture", 8)
    d_k: int = width(64)
    d_v: int = width(64)
    norm: str = choice("architecture", "post", "pre")
    layer_norm_epsilon: float = positive("architecture", 1e-6)
    activation: str = choice("architecture", "relu", "gelu", "silu")
    attention_bias: bool = switch("architecture", True)
    share_embeddings: str = choice(
        "architecture", "all", "target-softmax", "none"
    )
    output_bias: bool = switch("architecture", False)
    positions: str = choice(
        "architecture", "sinusoidal", "learned", "words", "next-word"
    )
    sinusoid_rates: str = choice("architecture", "paper", "marian")
    max_positions: int = count("architecture", 1024)
    first_source_word_id: int = count_or_zero("architecture", 0)
    first_target_word_id: int = count_or_zero("architecture", 0)
    attention_window: int = count_or_zero("architecture", 0)
    dropout: float = probability("training", 0.1)
    attention_dropout: float = probability("training", 0.0)
    activation_dropout: float = probability("training", 0.0)
    label_smoothing: float = probability("training", 0.1)
    r_drop: float = amount("training", 0.0)
    learning_rate_scale: float = positive("training", 1.0)
    warmup_steps: int = count("training", 4000)
    cooldown_steps: int = count_or_zero("duration", 0)
    adam_beta_1: float = probability("training", 0.9)
    adam_beta_2: float = probability("training", 0.98)
    adam_epsilon: float = positive("training", 1e-9)
    clip_norm: float = amount("training", 0.0)
    train_steps: int = count("duration", 100_000)
    batch_tokens: int = count("training", 25_000)
    average_checkpoints: int = count_or_zero("duration", 5)
    beam_size: int = count("decoding", 4, MAX_BEAMS)
    alpha: float = amount("decoding", 0.6, MAX_ALPHA)
    length_penalty: str = choice("decoding", "gnmt", "power")
    stop_criterion: str = choice("decoding", "exact", "k_finished", "heuristic")
    max_extra_tokens: int = count_or_zero("decoding", 50, MAX_EXTRA_TOKENS)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            value = checked_type(field.name, field.type, value)
            object.__setattr__(self, field.name, value)
            for expected, is_valid in field.metadata["limits"]:
                self._require(field.name, is_valid(value), expected)
        is_sinusoidal = self.positions == "sinusoidal"
        dropouts = (
            self.dropout,
            self.attention_dropout,
            self.activation_dropout,
        )
        self._require(
            "cooldown_steps",
            self.cooldown_steps <= self.train_steps,
            f"at most train_steps, {self.train_steps}",
        )
        self._require(
            "r_drop", any(dropouts) or not self.r_drop, "0 without dropout"
        )
        if is_sinusoidal:
            self._require("d_model", self.d_model % 2 == 0, "even")
        if self.sinusoid_rates == "marian":
            self._require(
                "sinusoid_rates",
                is_sinusoidal,
                f"paper with positions={self.positions}",
            )
            self._require("d_model", self.d_model > 2, "above 2")
        if self.uses_word_positions:
            self._require("d_model", self.d_model % 4 == 0, "a multiple of 4")
        for name in ("first_source_word_id", "first_target_word_id"):
            expected = "above 0" if self.uses_word_positions else "0"
            self._require(
                name,
                bool(getattr(self, name)) == self.uses_word_positions,
                f"{expected} with positions={self.positions}",
            )
        if self.share_embeddings == "all":
            self._require(
                "source_vocabulary_size",
                not self.source_vocabulary_size,
                "0 with share_embeddings=all (one matrix has one vocabulary; "
                "choose target-softmax or none)",
            )

    def _require(self, name, is_valid, expected):
        if not is_valid:
            raise ValueError(
                f"{name} must be {expected}, not {getattr(self, name)!r}."
            )

    @property
    def uses_word_positions(self):
        """Whether positions encode words, as in a ParserTransformer."""
        return self.positions in ("words", "next-word")

    @property
    def source_pieces(self):
        """Size of the source vocabulary, separate or joint."""
        return self.source_vocabulary_size or self.vocabulary_size

    @property
    def decoder_layers(self):
        """Number of layers in the decoder."""
        return self.num_decoder_layers or self.num_layers

    @property
    def heads_fill_model(self):
        """Whether H * d_k and H * d_v both equal D, as in the base model."""
        return (
            self.d_k == self.d_v and self.d_k * self.num_heads == self.d_model
        )

    def architecture(self):
        """Returns the architecture fields as a dict, defaults filled in.

        Models with equal dicts can exchange their weights.
        """
        names = field_names("architecture")
        return {name: getattr(self, name) for name in names} | {
            "source_vocabulary_size": self.source_pieces,
            "num_decoder_layers": self.decoder_layers,
        }

    @classmethod
    def preset(cls, name, **overrides):
        """Returns a configuration of `presets.PRESETS`, with overrides.

        Overrides are fields, such as `vocabulary_size=37000`. An unknown name
        or field, or a value out of range, raises ValueError.
        """
        if name not in PRESETS:
            raise ValueError(
                f"There is no preset {name!r}; there are: {', '.join(PRESETS)}."
            )
        return cls._from_fields({**PRESETS[name], **overrides})

    @classmethod
    def from_json(cls, text):
        """Returns the configuration from `to_json`, or raises ValueError."""
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError("A configuration must be a JSON object.")
        return cls._from_fields(fields)

    @classmethod
    def _from_fields(cls, fields):
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise ValueError(
                f"There is no field {unknown[0]!r}; there are: "
                f"{', '.join(known)}."
            )
        if "vocabulary_size" not in fields:
            raise ValueError("vocabulary_size is missing.")
        return cls(**fields)

    def to_json(self):
        """Returns the configuration as an indented JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def replace(self, **changes):
        """Returns a copy with some fields changed, or raises ValueError."""
        return self._from_fields({**dataclasses.asdict(self), **changes})


def field_names(*roles):
    """Returns a tuple of the field names that have any of the `ROLES`."""
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"A role is one of {ROLES}, not {role!r}.")
    return tuple(
        field.name
        for field in dataclasses.fields(TransformerConfig)
        if set(roles) & set(field.metadata["roles"])
    )
