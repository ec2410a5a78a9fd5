"""The configuration of a model: architecture, training and decoding."""

import dataclasses
import json
import math
from typing import Any, Self

import numpy as np

from keras_transformer.presets import PRESETS

# Special ids, the same in every vocabulary.
PAD_ID = 0
"""The id of padding."""
UNKNOWN_ID = 1
"""The id of text without a token."""
BEGIN_ID = 2
"""The id that a target begins with."""
END_ID = 3
"""The id that a source or a target ends with."""

# Never generated: padding looks like an end, unknown tokens are of no use.
FORBIDDEN_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID)

# The fields of a TransformerConfig that decide how it translates.
SEARCH_FIELDS = (
    *("beam_size", "alpha", "length_penalty"),
    *("max_extra_tokens", "stop_criterion"),
    *("no_repeat_ngram_size", "retry_ngram_size", "repetition_penalty"),
)

# Uses of the fields.
ROLES = (
    # Weights and their computation: equal in models that exchange weights.
    "architecture",
    # Architecture fields that Table 3 at another scale multiplies.
    "width",
    # Fixed for all runs of a training.
    "training",
    # Length and end of a training: may change between its runs.
    "duration",
    # May always change.
    "decoding",
)

# Larger values exceed any memory, or make scores underflow float32.
MAX_BEAMS = 1_000
MAX_EXTRA_TOKENS = 100_000
MAX_ALPHA = 8.0
# Scores of smaller ones could be below those of impossible hypotheses.
MIN_ALPHA = -1.0
MAX_REPETITION_PENALTY = 100.0

# Limits that keep values representable in int32 and float32.
LARGEST_INT = 2**31 - 1
SMALLEST_FLOAT, LARGEST_FLOAT = 1e-30, 1e30
BELOW_ONE = 0.999999


def validate_type(name: str, value: Any, expected: type) -> Any:
    """Returns a value of the expected Python type, or raises ValueError."""
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if expected is float and type(value) is int:
        value = float(value) if abs(value) < 2**53 else math.inf
    if type(value) is not expected:
        raise ValueError(f"{name} must be {expected.__name__}, not {value!r}.")
    return value


def validate_range(
    name: str, value: Any, least: float, most: float | None = None
) -> Any:
    """Returns a number in a range, of the type of `least`, or raises."""
    value = validate_type(name, value, type(least))
    if most is None:
        most = LARGEST_INT if isinstance(least, int) else LARGEST_FLOAT
    if not least <= value <= most:
        raise ValueError(
            f"{name} must be from {least:,} to {most:,}, not {value!r}."
        )
    if 0 < value < SMALLEST_FLOAT:
        raise ValueError(
            f"{name} must be 0 or at least {SMALLEST_FLOAT}, not {value}."
        )
    return value


def validate_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Returns a value that is one of the choices, or raises ValueError."""
    if value not in choices:
        expected = " or ".join(choices)
        raise ValueError(f"{name} must be {expected}, not {value!r}.")
    return value


def int_field(
    roles: str, default: Any, least: int = 1, most: int | None = None
) -> Any:
    """Returns a dataclass field for an int."""
    return _field(roles, default, validate_range, least, most)


def float_field(
    roles: str, default: float, least: float = 0.0, most: float | None = None
) -> Any:
    """Returns a dataclass field for a float, 0 or at least 1e-30."""
    return _field(roles, default, validate_range, least, most)


def choice_field(roles: str, default: str, *others: str) -> Any:
    """Returns a dataclass field for a str, the default or one of the others."""
    return _field(roles, default, validate_choice, (default, *others))


def _field(roles, default, validate, *limits):
    metadata = {
        "roles": roles.split(),
        "validate": lambda name, value: validate(name, value, *limits),
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Architecture, training and decoding options of a Transformer.

    The defaults are the paper's base model (sections 3, 5 and 6). A field of
    the wrong type or out of range raises ValueError.

    Attributes:
        vocabulary_size: V, the target (or joint) vocabulary, including pad (0),
            unknown (1), begin (2) and end (3).
        source_vocabulary_size: of a separate source vocabulary with the same
            special ids; 0 for a joint vocabulary, as in the paper.
        num_layers: N, encoder layers; also decoder layers by default.
        num_decoder_layers: decoder layers; 0 for `num_layers`.
        d_model: D, width of the residual stream.
        d_ff: F, inner width of the feed-forward layers.
        num_heads: H, attention heads.
        d_k: query and key width per head.
        d_v: value width per head.
        norm: "post" (section 3.1) or "pre" (before each sub-layer and at the
            end of each stack).
        layer_norm_epsilon: added to the variance.
        activation: "relu" (section 3.3), "gelu" or "silu".
        attention_bias: whether attention projections have biases.
        share_embeddings: "all" (section 3.4; needs a joint vocabulary),
            "target-softmax" or "none".
        output_bias: whether logits have a bias; the paper has none.
        positions: "sinusoidal" (section 3.5), "learned" (Table 3, row E) or,
            for a ParserTransformer, "words" or "next-word".
        sinusoid_rates: "paper" (section 3.5), "marian" or "fairseq"; see
            `SinusoidalPositionEncoding`.
        max_positions: rows of the learned position table.
        first_source_word_id: first source id that begins a word, if positions
            encode words.
        first_target_word_id: first target id that stands for a word.
        attention_window: r of restricted self-attention (section 4); 0 is off.
        dropout: P_drop, on each sub-layer's output and on the embedding sums.
        attention_dropout: on attention weights.
        activation_dropout: after the feed-forward activation.
        label_smoothing: epsilon_ls.
        r_drop: alpha of R-Drop, the weight of the `symmetric_divergence` of two
            passes with different dropout; 0 is off.
        learning_rate_scale: factor on the paper's schedule.
        warmup_steps: of the schedule.
        cooldown_steps: last steps, in which the rate falls linearly to 0.
        adam_beta_1: Adam's beta 1.
        adam_beta_2: Adam's beta 2.
        adam_epsilon: Adam's epsilon.
        clip_norm: largest global norm of the gradient; 0 is off.
        train_steps: updates in a full run.
        batch_tokens: maximum target tokens, and source tokens, per update.
        average_checkpoints: number of last checkpoints averaged into the final
            weights (section 6.1), with `cooldown_steps` from its last third
            only; 0 or 1 is off.
        beam_size: K, beams in decoding (section 6.1).
        alpha: exponent of the length penalty; below 0 it favors short outputs.
        length_penalty: "gnmt" or "power"; see the function of this name.
        stop_criterion: see `BeamSearchConfig`.
        max_extra_tokens: maximum of output length - source length.
        no_repeat_ngram_size: 0 for no limit; see `BeamSearchConfig`.
        retry_ngram_size: 0 for no second search; see `BeamSearchConfig`.
        repetition_penalty: 1 for none; see `BeamSearchConfig`.
        alignment_layer: decoder layer whose attention is the alignment, from 1;
            -1 for the last, -2 for the second to last, or the only one.
        alignment_heads: number of its first heads to average; 0 for all.
    """

    vocabulary_size: int = int_field("architecture", dataclasses.MISSING, 5)
    source_vocabulary_size: int = int_field("architecture", 0, least=0)
    num_layers: int = int_field("architecture", 6)
    num_decoder_layers: int = int_field("architecture", 0, least=0)
    d_model: int = int_field("architecture width", 512)
    d_ff: int = int_field("architecture width", 2048)
    num_heads: int = int_field("architecture", 8)
    d_k: int = int_field("architecture width", 64)
    d_v: int = int_field("architecture width", 64)
    norm: str = choice_field("architecture", "post", "pre")
    layer_norm_epsilon: float = float_field(
        "architecture", 1e-6, least=SMALLEST_FLOAT
    )
    activation: str = choice_field("architecture", "relu", "gelu", "silu")
    attention_bias: bool = _field("architecture", True, validate_type, bool)
    share_embeddings: str = choice_field(
        "architecture", "all", "target-softmax", "none"
    )
    output_bias: bool = _field("architecture", False, validate_type, bool)
    positions: str = choice_field(
        "architecture", "sinusoidal", "learned", "words", "next-word"
    )
    sinusoid_rates: str = choice_field(
        "architecture", "paper", "marian", "fairseq"
    )
    max_positions: int = int_field("architecture", 1024)
    first_source_word_id: int = int_field("architecture", 0, least=0)
    first_target_word_id: int = int_field("architecture", 0, least=0)
    attention_window: int = int_field("architecture", 0, least=0)
    dropout: float = float_field("training", 0.1, most=BELOW_ONE)
    attention_dropout: float = float_field("training", 0.0, most=BELOW_ONE)
    activation_dropout: float = float_field("training", 0.0, most=BELOW_ONE)
    label_smoothing: float = float_field("training", 0.1, most=BELOW_ONE)
    r_drop: float = float_field("training", 0.0)
    learning_rate_scale: float = float_field("training", 1.0, SMALLEST_FLOAT)
    warmup_steps: int = int_field("training", 4000)
    cooldown_steps: int = int_field("duration", 0, least=0)
    adam_beta_1: float = float_field("training", 0.9, most=BELOW_ONE)
    adam_beta_2: float = float_field("training", 0.98, most=BELOW_ONE)
    adam_epsilon: float = float_field("training", 1e-9, least=SMALLEST_FLOAT)
    clip_norm: float = float_field("training", 0.0)
    train_steps: int = int_field("duration", 100_000)
    batch_tokens: int = int_field("training", 25_000)
    average_checkpoints: int = int_field("duration", 5, least=0)
    beam_size: int = int_field("decoding", 4, most=MAX_BEAMS)
    alpha: float = float_field("decoding", 0.6, MIN_ALPHA, MAX_ALPHA)
    length_penalty: str = choice_field("decoding", "gnmt", "power")
    stop_criterion: str = choice_field(
        "decoding", "heuristic", "exact", "k_finished"
    )
    max_extra_tokens: int = int_field("decoding", 50, 0, MAX_EXTRA_TOKENS)
    no_repeat_ngram_size: int = int_field("decoding", 0, 0, MAX_EXTRA_TOKENS)
    retry_ngram_size: int = int_field("decoding", 0, 0, MAX_EXTRA_TOKENS)
    repetition_penalty: float = float_field(
        "decoding", 1.0, SMALLEST_FLOAT, MAX_REPETITION_PENALTY
    )
    alignment_layer: int = int_field("decoding", -2, least=-2)
    alignment_heads: int = int_field("decoding", 0, least=0)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            value = field.metadata["validate"](field.name, value)
            object.__setattr__(self, field.name, value)
        is_sinusoidal = self.positions == "sinusoidal"
        has_paper_rates = self.sinusoid_rates == "paper"
        dropouts = self.dropout, self.attention_dropout, self.activation_dropout
        source_size, width = self.source_vocabulary_size, self.d_model
        uses_words = self.uses_word_positions
        first_source = self.first_source_word_id
        first_target = self.first_target_word_id
        word_id = "above 0" if uses_words else "0 unless positions=words"
        for name, is_valid, expected in (
            ("source_vocabulary_size", not 0 < source_size < 5, "0 or above 4"),
            (
                "source_vocabulary_size",
                not source_size or self.share_embeddings != "all",
                "0 with share_embeddings=all; choose target-softmax or none",
            ),
            (
                "cooldown_steps",
                self.cooldown_steps <= self.train_steps,
                f"at most train_steps, {self.train_steps}",
            ),
            ("r_drop", any(dropouts) or not self.r_drop, "0 without dropout"),
            ("d_model", width % 2 == 0 or not is_sinusoidal, "even"),
            ("d_model", width % 4 == 0 or not uses_words, "a multiple of 4"),
            ("d_model", width > 2 or has_paper_rates, "above 2"),
            (
                "sinusoid_rates",
                is_sinusoidal or has_paper_rates,
                f"paper with positions={self.positions}",
            ),
            ("first_source_word_id", bool(first_source) == uses_words, word_id),
            ("first_target_word_id", bool(first_target) == uses_words, word_id),
            (
                "alignment_layer",
                0 != self.alignment_layer <= self.decoder_layers,
                f"a decoder layer, from 1 to {self.decoder_layers}, -1 or -2",
            ),
            (
                "alignment_heads",
                self.alignment_heads <= self.num_heads,
                f"at most num_heads, {self.num_heads}",
            ),
        ):
            if not is_valid:
                raise ValueError(
                    f"{name} must be {expected}, not {getattr(self, name)!r}."
                )

    @property
    def uses_word_positions(self) -> bool:
        """Whether positions encode words, as in a ParserTransformer."""
        return self.positions in ("words", "next-word")

    @property
    def encoder_vocabulary_size(self) -> int:
        """Size of the source vocabulary, separate or joint."""
        return self.source_vocabulary_size or self.vocabulary_size

    @property
    def decoder_layers(self) -> int:
        """Number of layers in the decoder."""
        return self.num_decoder_layers or self.num_layers

    @property
    def alignment_attention(self) -> tuple[int, int]:
        """The layer of alignments, from 1, and the number of its heads."""
        layer = self.alignment_layer
        if layer < 0:
            layer = max(self.decoder_layers + 1 + layer, 1)
        return layer, self.alignment_heads or self.num_heads

    @property
    def heads_fill_model(self) -> bool:
        """Whether H * d_k and H * d_v both equal D, as in the base model."""
        return self.d_k == self.d_v == self.d_model / self.num_heads

    def architecture(self) -> dict[str, Any]:
        """Returns the architecture fields as a dict, defaults filled in.

        Models with equal dicts can exchange their weights.
        """
        names = field_names("architecture")
        return {name: getattr(self, name) for name in names} | {
            "source_vocabulary_size": self.encoder_vocabulary_size,
            "num_decoder_layers": self.decoder_layers,
        }

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """Returns a configuration of `presets.PRESETS`, with overrides.

        Overrides are fields, such as `vocabulary_size=37000`. An unknown name
        or field, or a value out of range, raises ValueError.
        """
        if name not in PRESETS:
            raise ValueError(
                f"Unknown preset {name!r}; expected {', '.join(PRESETS)}."
            )
        return cls._from_fields({**PRESETS[name], **overrides})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the configuration from `to_json`, or raises ValueError."""
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError("A configuration must be a JSON object.")
        return cls._from_fields(fields)

    @classmethod
    def _from_fields(cls, fields):
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(fields) - set(known)):
            raise ValueError(
                f"Unknown field {unknown[0]!r}; expected {', '.join(known)}."
            )
        if "vocabulary_size" not in fields:
            raise ValueError("vocabulary_size is missing.")
        return cls(**fields)

    def to_json(self) -> str:
        """Returns the configuration as an indented JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed, or raises ValueError."""
        return self._from_fields({**dataclasses.asdict(self), **changes})

    def with_search(self, **settings: Any) -> Self:
        """Returns a copy with other SEARCH_FIELDS; None for no change.

        Raises TypeError for other names and ValueError for wrong values.
        """
        if unknown := {*settings} - {*SEARCH_FIELDS}:
            raise TypeError(
                f"A search has no {min(unknown)}; expected {SEARCH_FIELDS}."
            )
        changes = {k: v for k, v in settings.items() if v is not None}
        return dataclasses.replace(self, **changes)


def field_names(*roles: str) -> tuple[str, ...]:
    """Returns a tuple of the field names that have any of the `ROLES`."""
    return tuple(
        field.name
        for field in dataclasses.fields(TransformerConfig)
        if set(roles) & set(field.metadata["roles"])
    )
