"""What the configuration of a MarianMTModel means, and ours in its words."""

import keras_transformer as kt
from export.errors import InputError
from export.pretrained.generation import STOPS
from export.pretrained.known_fields import fields_not_held, names_of, short

# Theirs first where it has two names for one.
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
# PyTorch's LayerNorm, which MarianMTModel takes as it is.
_EPSILON = 1e-5
_EPSILON_FIELD = "layer_norm_epsilon"
# Other names of MarianConfig for the same fields.
_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
}
# The fields of ours that MarianMTModel can hold; others must be the default.
_HELD = {
    **names_of(
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon beam_size alpha "
        # Of learned positions, which it lacks.
        "max_output_extra max_positions"
    ),
    "activation": tuple(_ACTIVATIONS.values()),
    "share_embeddings": ("all", "target-softmax", "none"),
    "output_bias": (False, True),
    # It ranks by the second alone, as export.marian says.
    "length_penalty": ("gnmt", "power"),
    "stop": tuple(STOPS.values()),
}
_MOST = {
    "vocab_size": 2**24,
    "decoder_vocab_size": 2**24,
    "d_model": 2**16,
    "encoder_ffn_dim": 2**20,
    "encoder_layers": 1000,
    "decoder_layers": 1000,
    "encoder_attention_heads": 2**12,
}


def config_of(found, search, shapes):
    """Returns the TransformerConfig of a MarianMTModel.

    Args:
        found: dict of its config.json, of `known_fields.CONFIG`.
        search: dict of fields of a search, of `generation.read_generation`.
        shapes: dict of what the vocabularies decide: `vocabulary_size`,
            `source_vocabulary_size` and `output_bias`.

    Raises:
        InputError: the configuration is not whole, or of a network that we
            do not have, which is named.
    """
    if found.get("model_type", "marian") != "marian":
        raise InputError(
            f"config.json is of a {found['model_type']!r} model; model_type "
            "must be 'marian'."
        )
    for alias, name in _ALIASES.items():
        if alias in found and found[alias] != found.get(name):
            raise InputError(
                f"config.json has {alias}={short(found[alias])} and {name}="
                f"{short(found.get(name))}, two names of one field; remove "
                f"{alias}."
            )
    width, heads = number(found, "d_model"), _same(found, "attention_heads")
    if width % heads:
        raise InputError(
            f"config.json has d_model={width}, which its "
            f"{heads} attention heads do not divide."
        )
    encoder = number(found, "encoder_layers")
    decoder = number(found, "decoder_layers")
    try:
        return kt.TransformerConfig(
            **shapes,
            num_layers=encoder,
            num_decoder_layers=0 if decoder == encoder else decoder,
            d_model=width,
            d_ff=_same(found, "ffn_dim"),
            num_heads=heads,
            d_k=width // heads,
            d_v=width // heads,
            norm="post",
            layer_norm_epsilon=found.get(_EPSILON_FIELD, _EPSILON),
            activation=_activation(found),
            share_embeddings=sharing(found),
            dropout=found.get("dropout", 0.1),
            attention_dropout=found.get("attention_dropout", 0.0),
            activation_dropout=found.get("activation_dropout", 0.0),
            **search,
        )
    except ValueError as error:
        raise InputError(f"config.json cannot be used: {error}") from error


def sharing(found):
    """Returns our `share_embeddings` of a dict of config.json."""
    is_tied = _switch(found, "tie_word_embeddings")
    if has_one_vocabulary(found) and is_tied:
        return "all"
    return "target-softmax" if is_tied else "none"


def has_one_vocabulary(found):
    """Whether source and target have one vocabulary."""
    return _switch(found, "share_encoder_decoder_embeddings")


def _switch(found, name):
    value = found.get(name, True)
    if type(value) is not bool:
        raise InputError(
            f"config.json must have true or false as {name}, not "
            f"{short(value)}."
        )
    return value


def number(found, name):
    """Returns a size of config.json.

    Raises:
        InputError: it is missing or out of range.
    """
    value, most = found.get(name), _MOST.get(name, 2**24)
    if type(value) is not int or not 0 < value <= most:
        raise InputError(
            f"config.json must say {name}, a whole number from 1 to {most:,}, "
            f"not {value!r}."
        )
    return value


def _same(found, name):
    encoder = number(found, f"encoder_{name}")
    decoder = number(found, f"decoder_{name}")
    if encoder != decoder:
        raise InputError(
            f"config.json has encoder_{name}={encoder} and decoder_{name}="
            f"{decoder}; only one width for both is supported."
        )
    return encoder


def _activation(found):
    name = found.get("activation_function", "gelu")
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise InputError(
            f"config.json has activation_function={name!r}, which is not "
            f"supported; there are {', '.join(_ACTIVATIONS)}."
        )
    return _ACTIVATIONS[name]


def hugging_face_config(config, source_pieces, pieces, pad, end, never):
    """Returns config.json and generation_config.json of a model of ours.

    Args:
        config: TransformerConfig.
        source_pieces: number of pieces of the source that are written.
        pieces: the same of the target.
        pad: id of padding there, and of what the decoder begins with.
        end: id of the end there.
        never: list of ids that are never said.

    Returns:
        Two dicts.

    Raises:
        InputError: MarianMTModel cannot hold such a model.
    """
    refuse_what_marian_lacks(config)
    activation = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    shared = config.share_embeddings == "all"
    ids = {
        "pad_token_id": pad,
        "eos_token_id": end,
        "decoder_start_token_id": pad,
        "bos_token_id": None,
    }
    network = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": source_pieces,
        "decoder_vocab_size": pieces,
        "d_model": config.d_model,
        "encoder_layers": config.num_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": activation[config.activation],
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": config.share_embeddings != "none",
        "max_position_embeddings": 1024,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "dtype": "float32",
        # Of no meaning to MarianMTModel, which has 1e-5.
        _EPSILON_FIELD: config.layer_norm_epsilon,
        **ids,
    }
    generation = {
        **ids,
        "num_beams": config.beam_size,
        "length_penalty": config.alpha,
        "forced_eos_token_id": end,
        "early_stopping": {ours: name for name, ours in STOPS.items()}[
            config.stop
        ],
        "max_length": config.max_output_extra + 1,
        "suppress_tokens": never,
    }
    return network, generation


def refuse_what_marian_lacks(config):
    """Refuses a network that the format of Marian's models cannot hold.

    Raises:
        InputError: naming what it is.
    """
    lacking = fields_not_held(config, _HELD)
    if not config.heads_fill_model:
        lacking.append("d_k and d_v other than d_model / num_heads")
    for what in lacking:
        raise InputError(
            f"MarianMTModel has no {what}, so that this model cannot be "
            "written for it; CTranslate2 may take it (export.ctranslate2)."
        )
