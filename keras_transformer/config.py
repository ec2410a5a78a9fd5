"""The one description of a model: its sizes, its training, its decoding."""

import dataclasses
import json
import math
import typing

from keras_transformer.presets import PRESETS

_CHOICES = {
    "norm": ("post", "pre"),
    "activation": ("relu", "gelu", "silu"),
    "share_embeddings": ("all", "target-softmax", "none"),
    "positions": ("sinusoidal", "learned"),
    "length_penalty": ("gnmt", "power"),
}
_AT_LEAST_ONE = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "max_positions",
    "warmup_steps",
    "train_steps",
    "batch_tokens",
    "beam_size",
)
_AT_LEAST_ZERO = (
    "attention_window",
    "cooldown_steps",
    "clip_norm",
    "r_drop",
    "average_checkpoints",
    "alpha",
    "max_output_extra",
)
_PROBABILITIES = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "label_smoothing",
    "adam_beta_1",
    "adam_beta_2",
)
_POSITIVE = ("layer_norm_epsilon", "learning_rate_scale", "adam_epsilon")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Everything that decides what a Transformer is and how it is trained.

    The defaults are the paper's base model ("Attention Is All You Need",
    sections 3, 5 and 6). Use `preset` for the named configurations.

    Attributes:
        vocabulary_size: V, number of pieces including pad (0), unknown (1),
            begin (2) and end (3).
        num_layers: N, layers in the encoder and as many in the decoder.
        d_model: D, width of the residual stream.
        d_ff: F, inner width of the feed-forward layers.
        num_heads: H, attention heads.
        d_k: width of a head's queries and keys; free of d_model / num_heads
            (Table 3, rows A and B).
        d_v: width of a head's values.
        norm: "post" (section 3.1, LayerNorm after the residual sum) or "pre"
            (before the sub-layer, with a final norm on each stack).
        layer_norm_epsilon: added to the variance.
        activation: of the feed-forward layer: "relu" (section 3.3), "gelu"
            or "silu".
        attention_bias: whether attention projections have biases.
        share_embeddings: "all" (section 3.4: source, target and pre-softmax
            matrix are one), "target-softmax" or "none".
        positions: "sinusoidal" (section 3.5) or "learned" (Table 3, row E).
        max_positions: rows of the learned position table; the sinusoid has
            no such limit.
        attention_window: r of restricted self-attention (section 4): each
            position sees the r nearest positions on either side; 0 is off.
        dropout: P_drop, on each sub-layer's output and on the embedding sums.
        attention_dropout: on attention weights.
        activation_dropout: after the feed-forward activation.
        label_smoothing: epsilon_ls.
        r_drop: alpha of R-Drop (Liang et al. 2021, arXiv 2106.14448): how
            much it costs that two passes with different dropout differ; an
            update takes both. 0 is off, 5 is theirs for translation.
        learning_rate_scale: factor on the paper's schedule.
        warmup_steps: of the schedule.
        cooldown_steps: how many of the last of train_steps have a rate that
            falls to 0 along a straight line; 0 is off.
        adam_beta_1: Adam's beta 1.
        adam_beta_2: Adam's beta 2.
        adam_epsilon: Adam's epsilon.
        clip_norm: largest global norm of the gradient; 0 is off.
        train_steps: updates in a full run.
        batch_tokens: budget of target tokens (and of source tokens) of one
            update, over all replicas.
        average_checkpoints: how many of the last checkpoints are averaged
            into the final weights (section 6.1); 0 or 1 is off.
        beam_size: K, beams in decoding (section 6.1).
        alpha: exponent of the length penalty.
        length_penalty: "gnmt", ((5 + length) / 6) ** alpha, or "power",
            length ** alpha. Length counts the end token.
        max_output_extra: an output has at most source length + this many
            tokens.

    Raises:
        ValueError: a field has a wrong type or lies outside its range.
    """

    vocabulary_size: int
    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 64
    d_v: int = 64
    norm: str = "post"
    layer_norm_epsilon: float = 1e-6
    activation: str = "relu"
    attention_bias: bool = True
    share_embeddings: str = "all"
    positions: str = "sinusoidal"
    max_positions: int = 1024
    attention_window: int = 0
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    learning_rate_scale: float = 1.0
    warmup_steps: int = 4000
    cooldown_steps: int = 0
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.98
    adam_epsilon: float = 1e-9
    clip_norm: float = 0.0
    train_steps: int = 100_000
    batch_tokens: int = 25_000
    average_checkpoints: int = 5
    beam_size: int = 4
    alpha: float = 0.6
    length_penalty: str = "gnmt"
    max_output_extra: int = 50

    def __post_init__(self):
        for name, kind in typing.get_type_hints(type(self)).items():
            value = _checked_type(name, kind, getattr(self, name))
            object.__setattr__(self, name, value)
        if self.vocabulary_size < 5:
            raise ValueError(
                "vocabulary_size must be at least 5 (pad, unknown, begin, end "
                f"and one piece), not {self.vocabulary_size}."
            )
        for name in _AT_LEAST_ONE:
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in _AT_LEAST_ZERO:
            self._require(name, getattr(self, name) >= 0, "at least 0")
        for name in _PROBABILITIES:
            self._require(
                name, 0 <= getattr(self, name) < 1, "at least 0 and below 1"
            )
        for name in _POSITIVE:
            self._require(name, getattr(self, name) > 0, "above 0")
        for name in (*_AT_LEAST_ZERO, *_POSITIVE):
            self._require(name, math.isfinite(getattr(self, name)), "finite")
        for name, allowed in _CHOICES.items():
            self._require(
                name, getattr(self, name) in allowed, " or ".join(allowed)
            )
        self._require(
            "cooldown_steps",
            self.cooldown_steps <= self.train_steps,
            f"at most train_steps, {self.train_steps}",
        )
        self._require(
            "r_drop",
            not self.r_drop or self._drops(),
            "0 where there is no dropout",
        )
        if self.positions == "sinusoidal":
            self._require("d_model", self.d_model % 2 == 0, "even")

    def _drops(self):
        return self.dropout or self.attention_dropout or self.activation_dropout

    def _require(self, name, holds, expected):
        if not holds:
            raise ValueError(
                f"{name} must be {expected}, not {getattr(self, name)!r}."
            )

    @classmethod
    def preset(cls, name, **overrides):
        """Returns a named configuration.

        Args:
            name: a key of `keras_transformer.presets.PRESETS`.
            **overrides: fields to change, such as `vocabulary_size=37000`.

        Returns:
            The configuration.

        Raises:
            ValueError: there is no such preset or field, or a value is out
                of range.
        """
        if name not in PRESETS:
            raise ValueError(
                f"There is no preset {name!r}; there are: {', '.join(PRESETS)}."
            )
        return cls._from_fields({**PRESETS[name], **overrides})

    @classmethod
    def from_json(cls, text):
        """Returns the configuration that `to_json` wrote.

        Args:
            text: a JSON object, field name to value.

        Raises:
            ValueError: the text is not a JSON object of known fields.
        """
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
        """Returns a copy with some fields changed.

        Raises:
            ValueError: there is no such field, or a value is out of range.
        """
        return self._from_fields({**dataclasses.asdict(self), **changes})


def _checked_type(name, kind, value):
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 2**53 else math.inf
    if type(value) is not kind:
        raise ValueError(f"{name} must be of type {kind.__name__}: {value!r}.")
    return value
