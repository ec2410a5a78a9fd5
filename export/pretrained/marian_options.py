"""What the options of Marian mean, of a network and of a search.

They are those of Marian's command line, as `special:model.yml` in its model
files and `decoder.yml` beside them say them; what they leave out has Marian's
default.

Marian's search and ours: score / length ^ normalize counts the end in both,
and so does a search that goes on until K hypotheses have ended (`stop` is
"finished"). Yet Marian's beam has one place less with each of them, and ours
keeps all K until the last, so that now and then another translation is found.
Marian's limit of the length is a multiple of the source's, of the longest one
in its batch, and ours is a difference.
"""

import math

import keras_transformer as kt
from export.errors import InputError
from export.pretrained.known_fields import check_fields, names_of, short

# Up to this source length, in pieces, ours may be as long as Marian's.
_EQUALLY_LONG = 128
_ON, _OFF = ("true", "yes", "on"), ("false", "no", "off")
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}
_IS_OFF = dict.fromkeys(
    (
        "transformer-no-projection",
        "transformer-pool",
        "transformer-train-position-embeddings",
        "transformer-train-positions",
        "transformer-disable-position-embeddings",
        "transformer-no-bias",
        "transformer-no-affine",
        "embedding-normalization",
        "input-join-fields",
        "right-left",
        "ulr",
    ),
    _OFF,
)
# The options of a network, Marian 1.5 to 1.12: what ours must have, Marian's
# default first. "d" is dropout, which a trained network does not do.
_NETWORK = {
    **_IS_OFF,
    "type": ("transformer",),
    "transformer-preprocess": ("", "d"),
    "transformer-postprocess": ("dan", "an"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "d"),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-tied-layers": ([],),
    "transformer-attention-mask": ("default",),
    "lemma-dim-emb": ("0",),
    "input-types": ([], ["sequence", "sequence"]),
    "special-vocab": ([], ""),
    # Read by the import.
    **names_of(
        "dim-vocabs dim-emb enc-depth dec-depth transformer-heads "
        "transformer-dim-ffn transformer-decoder-dim-ffn output-omit-bias "
        "transformer-ffn-activation tied-embeddings tied-embeddings-src "
        "tied-embeddings-all version"
    ),
    # Of networks, factors and masks that are refused above, or of training.
    **names_of(
        "dim-rnn enc-type enc-cell enc-cell-depth dec-cell skip "
        "dec-cell-base-depth dec-cell-high-depth layer-normalization "
        "transformer-rnn-projection transformer-dim-aan transformer-aan-depth "
        "transformer-aan-activation transformer-aan-nogate ulr-dim-emb "
        "ulr-trainable-transformation bert-type-vocab-size "
        "bert-train-type-embeddings lemma-dependency factors-combine "
        "factors-dim-emb transformer-alibi-shift transformer-alibi-trainable "
        "separator-symbol char-conv-filters-num char-conv-filters-widths "
        "char-highway char-stride transformer-depth-scaling "
        "transformer-guided-alignment-layer embedding-fix-src "
        "embedding-fix-trg"
    ),
}
_DECODING = names_of(
    # Read by the import.
    "models vocabs beam-size normalize max-length-factor word-penalty "
    # Paths, batches, devices, rounding, and what is printed besides.
    "relative-paths mini-batch mini-batch-words maxi-batch maxi-batch-sort "
    "max-length max-length-crop workspace devices num-devices cpu-threads "
    "data-threads no-nccl fp16 precision optimize gemm-type quantize-range "
    "model-mmap log log-level log-time-zone quiet quiet-translation seed "
    "port n-best n-best-feature alignment word-scores stat-freq input output "
    "weights version authors cite build-info ignore-model-config "
    "interpolate-env-vars check-nan"
)
# Of its search and text, and the values that switch them off.
_UNAVAILABLE = {
    **dict.fromkeys(
        (
            "allow-unk",
            "allow-special",
            "force-decode",
            "skip-cost",
            "no-spm-encode",
            "no-spm-decode",
            "tsv",
        ),
        _OFF,
    ),
    "tsv-fields": ("0",),
    "shortlist": ([], ""),
    "output-approx-knn": ([], ""),
    "output-sampling": ([], "", ["0"]),
}
_MOST = {
    "enc-depth": 1000,
    "dec-depth": 1000,
    "dim-emb": 2**16,
    "transformer-heads": 2**12,
    "transformer-dim-ffn": 2**20,
    "transformer-decoder-dim-ffn": 2**20,
    "beam-size": 1000,
}
_MODEL, _DECODER = "special:model.yml", "decoder.yml"
_FORM = "{}: {}"


def network_of(options, shapes):
    """Returns the TransformerConfig of a network, Marian's search left out.

    Args:
        options: dict of `special:model.yml`.
        shapes: dict of what the vocabularies decide: `vocabulary_size` and
            `source_vocabulary_size`.

    Raises:
        InputError: they are not whole, or of a network that we do not have,
            which is named.
    """
    options = {"type": "none"} | options
    check_fields(_lower(options, _IS_OFF), _NETWORK, {}, _MODEL, _FORM)
    width, heads = (
        _number(options, "dim-emb"),
        _number(options, "transformer-heads"),
    )
    if width % heads:
        raise InputError(
            f"{_MODEL} says dim-emb: {width}, which its {heads} "
            "transformer-heads do not divide."
        )
    inner = _number(options, "transformer-dim-ffn")
    inner_of_decoder = _number(options, "transformer-decoder-dim-ffn", 0)
    if inner_of_decoder not in (0, inner):
        raise InputError(
            f"{_MODEL} says transformer-dim-ffn: {inner} and "
            f"transformer-decoder-dim-ffn: {inner_of_decoder}; only one width "
            "for both is supported."
        )
    encoder, decoder = (
        _number(options, "enc-depth"),
        _number(options, "dec-depth"),
    )
    try:
        return kt.TransformerConfig(
            **shapes,
            num_layers=encoder,
            num_decoder_layers=0 if decoder == encoder else decoder,
            d_model=width,
            d_ff=inner,
            num_heads=heads,
            d_k=width // heads,
            d_v=width // heads,
            norm="post",
            # Of Marian's Transformer; 1e-9 is of its other networks.
            layer_norm_epsilon=1e-6,
            activation=_activation(options),
            share_embeddings=sharing(options),
            output_bias=True,
            sinusoid_rates="marian",
        )
    except ValueError as error:
        raise InputError(f"{_MODEL} cannot be used: {error}") from error


def sharing(options):
    """Returns our `share_embeddings` of a network's options."""
    everything = is_on(options, "tied-embeddings-all")
    output = is_on(options, "tied-embeddings")
    if everything or (output and shares_sides(options)):
        return "all"
    return "target-softmax" if output else "none"


def shares_sides(options):
    """Whether source and target have one matrix of embeddings."""
    return is_on(options, "tied-embeddings-all") or is_on(
        options, "tied-embeddings-src"
    )


def has_bias(options):
    """Whether numbers are added to the logits."""
    return not is_on(options, "output-omit-bias")


def is_on(options, name):
    """Returns the bool of a switch, off where it is not said.

    Raises:
        InputError: it is neither on nor off.
    """
    value = options.get(name, "false")
    if not isinstance(value, str) or value.lower() not in _ON + _OFF:
        raise InputError(f"{_MODEL} must say true or false of {name}.")
    return value.lower() in _ON


def vocabulary_sizes(options):
    """Returns `dim-vocabs`, the rows of the source's and target's matrix.

    Raises:
        InputError: they are not two sizes.
    """
    sizes = options.get("dim-vocabs")
    if not (
        isinstance(sizes, list)
        and len(sizes) == 2
        and all(_is_count(each, 2**24) for each in sizes)
    ):
        raise InputError(
            f"{_MODEL} must say dim-vocabs, the two sizes of the vocabularies."
        )
    return tuple(int(each) for each in sizes)


def search_of(options):
    """Returns our fields of a search as `decoder.yml` asks for.

    Args:
        options: dict of decoder.yml.

    Raises:
        InputError: they are not numbers of a search.
    """
    factor = max(_real(options, "max-length-factor", 3.0), 1.0)
    return {
        "beam_size": _number(options, "beam-size", 12, _DECODER),
        "alpha": _real(options, "normalize", 0.0),
        "length_penalty": "power",
        "stop": "finished",
        "max_output_extra": math.ceil((factor - 1) * _EQUALLY_LONG),
    }


def search_notes(decoder):
    """Returns a list of str: what decoder.yml asks for and ours has not.

    Raises:
        InputError: it has an option that is not known.
    """
    notes = check_fields(
        _lower(decoder, _UNAVAILABLE), _DECODING, _UNAVAILABLE, _DECODER, _FORM
    )
    if _real(decoder, "word-penalty", 0.0):
        notes.append(f"word-penalty of {_DECODER} is not done by our search")
    return notes


def _lower(options, names):
    """Returns options with those of some names in small letters."""
    return options | {
        name: options[name].lower()
        for name in names
        if isinstance(options.get(name), str)
    }


def _activation(options):
    name = options.get("transformer-ffn-activation", "swish")
    if name not in _ACTIVATIONS:
        # Marian's gelu has been x * sigmoid(1.702 x), and erf's since 1.12.
        raise InputError(
            f"{_MODEL} says transformer-ffn-activation: {short(name)}, which "
            f"is not supported; there are {' and '.join(_ACTIVATIONS)}."
        )
    return _ACTIVATIONS[name]


def _number(options, name, default=None, file=_MODEL):
    if name not in options and default is not None:
        return default
    value = options.get(name)
    if not _is_count(value, _MOST[name]) or (int(value) == 0 and default != 0):
        raise InputError(
            f"{file} must say {name}, a whole number from 1 to "
            f"{_MOST[name]:,}, not {short(value)}."
        )
    return int(value)


def _is_count(value, most):
    return (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) < 12
        and int(value) <= most
    )


def _real(options, name, default):
    try:
        value = float(options.get(name, default))
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value <= 100:
        raise InputError(
            f"{_DECODER} must say {name} as a number from 0 to 100, not "
            f"{short(options[name])}."
        )
    return value
