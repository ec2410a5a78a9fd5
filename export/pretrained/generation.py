"""The search of a generation_config.json as fields of a TransformerConfig."""

import typing

from export.common.errors import InputError
from export.pretrained.field_tables import (
    GENERATION,
    check_fields,
    read_count,
    shorten,
    wrong_value,
)

_FILE = "generation_config.json"
# Of MarianConfig, where there is no generation_config.json.
_DEFAULT_IDS = {"decoder_start_token_id": 58100, "eos_token_id": 0}
# New tokens of `generate` where no limit is given.
_DEFAULT_LIMIT = 20
# Sources are truncated to as many tokens.
_MAX_SOURCE = 512
_MAX_PENALTY = 100
_MAX_BEAMS, _MAX_LENGTH = 1000, 2**16
# Values of early_stopping, and the criterion of a TransformerConfig.
STOPS = {True: "k_finished", False: "heuristic", "never": "exact"}


class Generation(typing.NamedTuple):
    """What `generate` of transformers does by default.

    Attributes:
        search: dict of fields of a TransformerConfig.
        begin: id that the decoder begins with, in the table of the checkpoint.
        end: id of the end.
        suppressed: set of the ids that are never generated.
        is_renormalized: whether those take no part in the softmax.
        notes: list of str: what differs here.
    """

    search: dict
    begin: int
    end: int
    suppressed: set[int]
    is_renormalized: bool
    notes: list[str]


def read_generation(config, generation):
    """Reads the settings of `generate` as transformers does.

    Args:
        config: dict of config.json, whose settings hold where there is no
            generation_config.json.
        generation: dict of generation_config.json, or None.

    Returns:
        Generation.

    Raises:
        InputError: a field is not known, or has a value that is not possible.
    """
    file, fields = _FILE, generation
    if generation is None:
        file = "config.json"
        fields = {name: config[name] for name in config if name in GENERATION}
        fields = _DEFAULT_IDS | fields
    notes = check_fields(fields, GENERATION, file)
    end = _read_end(fields, file)
    begin = fields.get("decoder_start_token_id", fields.get("bos_token_id"))
    if not _is_id(begin):
        raise wrong_value(file, "decoder_start_token_id", begin, "one id")
    for name, value in (
        ("decoder_start_token_id", begin),
        ("eos_token_id", end),
    ):
        if config.get(name, value) not in (value, [value]):
            raise wrong_value(
                *("config.json", name, config[name]), f"{value} as in {file}"
            )
    suppressed, more_notes = _read_suppressed(fields, end, file)
    limit = _read_limit(fields, file)
    return Generation(
        {
            "beam_size": read_count(fields, "num_beams", _MAX_BEAMS, file, 1),
            "alpha": _read_penalty(fields, file),
            "length_penalty": "power",
            "stop": STOPS[fields.get("early_stopping", False)],
            "max_output_extra": limit,
        },
        begin,
        end,
        suppressed,
        bool(fields.get("renormalize_logits", False)),
        [*notes, *more_notes, *_length_notes(fields, limit, file)],
    )


def _read_penalty(fields, file):
    alpha = fields.get("length_penalty", 1.0)
    if type(alpha) not in (int, float) or not 0 <= alpha <= _MAX_PENALTY:
        expected = f"a number from 0 to {_MAX_PENALTY}"
        raise wrong_value(file, "length_penalty", alpha, expected)
    return alpha


def _read_limit(fields, file):
    """Returns the most tokens of an output, its end included."""
    # max_length includes the token that the decoder begins with.
    default = _DEFAULT_LIMIT + 1
    length = read_count(fields, "max_length", _MAX_LENGTH, file, default)
    if "max_new_tokens" not in fields:
        return length - 1
    return read_count(fields, "max_new_tokens", _MAX_LENGTH, file)


def _length_notes(fields, limit, file):
    notes = []
    if limit < _MAX_SOURCE - 1:
        notes.append(
            f"{file} ends an output after {limit} tokens, whatever its "
            f"source; here the limit is {limit} tokens more than the source's "
            "length"
        )
    for name, most in (("min_length", 2), ("min_new_tokens", 1)):
        value = fields.get(name, 0)
        if not _is_id(value) or value > most:
            notes.append(
                f"{name}={shorten(value)} of {file} is not done here, where an "
                "output has at least 1 token"
            )
    return notes


def _read_end(fields, file):
    end = fields.get("eos_token_id")
    ends = end if isinstance(end, list) else [end]
    if len(ends) != 1 or not _is_id(ends[0]):
        raise wrong_value(file, "eos_token_id", end, "one id")
    forced = fields.get("forced_eos_token_id", ends[0])
    if forced not in (ends[0], ends):
        expected = f"eos_token_id, {ends[0]},"
        raise wrong_value(file, "forced_eos_token_id", forced, expected)
    return ends[0]


def _read_suppressed(fields, end, file):
    """Returns the set of ids that are never generated, and notes."""
    single = fields.get("suppress_tokens", [])
    words = fields.get("bad_words_ids", [])
    if not _is_ids(single):
        raise wrong_value(file, "suppress_tokens", single, "a list of ids")
    if not isinstance(words, list) or not all(map(_is_ids, words)):
        raise wrong_value(file, "bad_words_ids", words, "lists of ids")
    # `generate` ignores the end in bad_words_ids alone.
    words = [word for word in words if word != [end]]
    suppressed = {*single, *(word[0] for word in words if len(word) == 1)}
    if end in suppressed:
        raise InputError(
            f"{file} has the end, eos_token_id={end}, in suppress_tokens, so "
            "that no output ends; remove it."
        )
    longer = [word for word in words if len(word) != 1]
    if not longer:
        return suppressed, []
    return suppressed, [
        f"bad_words_ids of {file} has {len(longer)} words of several tokens, "
        f"such as {shorten(longer[0])}, which are not suppressed here"
    ]


def _is_ids(value):
    return isinstance(value, list) and all(type(each) is int for each in value)


def _is_id(value):
    return type(value) is int and value >= 0
