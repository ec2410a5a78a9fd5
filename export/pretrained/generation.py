"""The search that a generation_config.json asks for, in our words."""

import typing

from export.errors import InputError
from export.pretrained.known_fields import (
    GENERATION,
    UNAVAILABLE,
    check_fields,
    short,
)

_FILE = "generation_config.json"
# Of MarianConfig, which has them where there is no generation_config.json.
_DEFAULT_IDS = {"decoder_start_token_id": 58100, "eos_token_id": 0}
# New tokens of `generate` where no limit is given.
_SHORTEST_LIMIT = 20
# Sources are truncated to as many tokens.
_LONGEST_SOURCE = 512
_LARGEST_PENALTY = 100
_MOST = {"num_beams": 1000, "max_length": 2**16, "max_new_tokens": 2**16}
# Its early_stopping, and ours.
STOPS = {True: "finished", False: "likely", "never": "certain"}


class Generation(typing.NamedTuple):
    """What `generate` does by default.

    Attributes:
        search: dict of fields of a TransformerConfig.
        begin: their id that the decoder begins with.
        end: their id of the end.
        suppressed: set of their ids that are never generated.
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
        InputError: there is a field that is not known, or has a value that is
            not possible here.
    """
    file, found = _FILE, generation
    if generation is None:
        file = "config.json"
        fields = GENERATION.keys() | UNAVAILABLE.keys()
        found = {key: each for key, each in config.items() if key in fields}
        found = _DEFAULT_IDS | found
    notes = check_fields(found, GENERATION, UNAVAILABLE, file)
    end = _end(found, file)
    start = found.get("decoder_start_token_id", found.get("bos_token_id"))
    if not _is_count(start):
        raise InputError(
            f"{file} must give decoder_start_token_id, the id of a piece, not "
            f"{start!r}."
        )
    for name, value in (
        ("decoder_start_token_id", start),
        ("eos_token_id", end),
    ):
        if config.get(name, value) not in (value, [value]):
            raise InputError(
                f"config.json has {name}={short(config[name])} and {file} "
                f"{value}; both must be the same."
            )
    suppressed, more_notes = _suppressed(found, end, file)
    renormalize = found.get("renormalize_logits", False) is True
    return Generation(
        _search(found, file),
        start,
        end,
        suppressed,
        renormalize,
        [*notes, *more_notes, *_length_notes(found, file)],
    )


def _search(found, file):
    stop = found.get("early_stopping", False)
    if not (type(stop) is bool or stop == "never"):
        raise InputError(
            f"{file} has early_stopping={short(stop)}; it must be true, false "
            "or 'never'."
        )
    alpha = found.get("length_penalty", 1.0)
    if type(alpha) not in (int, float) or not 0 <= alpha <= _LARGEST_PENALTY:
        raise InputError(
            f"{file} has length_penalty={short(alpha)}; it must be a number "
            f"from 0 to {_LARGEST_PENALTY}."
        )
    return {
        "beam_size": _count(found, "num_beams", 1, file),
        "alpha": alpha,
        "length_penalty": "power",
        "stop": STOPS[stop],
        "max_output_extra": _new_tokens(found, file),
    }


def _new_tokens(found, file):
    """Returns the most tokens of an output, the end counted."""
    # It counts the token that the decoder begins with.
    longest = _count(found, "max_length", _SHORTEST_LIMIT + 1, file)
    return _count(found, "max_new_tokens", longest - 1, file)


def _count(found, name, default, file):
    value = found.get(name, default)
    if name in found and not (_is_count(value) and 0 < value <= _MOST[name]):
        raise InputError(
            f"{file} has {name}={short(value)}; it must be a whole number from "
            f"1 to {_MOST[name]:,}."
        )
    return value


def _length_notes(found, file):
    longest = _new_tokens(found, file)
    notes = []
    if longest < _LONGEST_SOURCE - 1:
        notes.append(
            f"{file} ends an output after {longest} tokens, whatever its "
            f"source; here the limit is {longest} tokens more than the "
            "source's length"
        )
    for name, most in (("min_length", 2), ("min_new_tokens", 1)):
        value = found.get(name, 0)
        if not _is_count(value) or value > most:
            notes.append(
                f"{name}={short(value)} of {file} is not done here, where an "
                "output has at least 1 token"
            )
    return notes


def _end(found, file):
    end = found.get("eos_token_id")
    ends = end if isinstance(end, list) else [end]
    if len(ends) != 1 or not _is_count(ends[0]):
        raise InputError(
            f"{file} has eos_token_id={short(end)}; it must be the id of one "
            "piece, with which every output ends."
        )
    forced = found.get("forced_eos_token_id", ends[0])
    if forced not in (ends[0], ends):
        raise InputError(
            f"{file} has forced_eos_token_id={short(forced)}; it must be "
            f"eos_token_id, {ends[0]}."
        )
    return ends[0]


def _suppressed(found, end, file):
    """Returns the set of ids that are never generated, and notes."""
    single = found.get("suppress_tokens", [])
    words = found.get("bad_words_ids", [])
    if not (
        _is_ids(single) and isinstance(words, list) and all(map(_is_ids, words))
    ):
        raise InputError(
            f"{file} must have lists of ids as suppress_tokens, and lists of "
            "such lists as bad_words_ids."
        )
    # `generate` takes the end from the second alone.
    words = [word for word in words if word != [end]]
    suppressed = {*single, *(word[0] for word in words if len(word) == 1)}
    if end in suppressed:
        raise InputError(
            f"{file} has the end, eos_token_id={end}, in suppress_tokens, so "
            "that no output ends; remove it."
        )
    notes = []
    longer = [word for word in words if len(word) != 1]
    if longer:
        notes.append(
            f"bad_words_ids of {file} has {len(longer)} words of several "
            f"tokens, such as {short(longer[0])}, which are not suppressed "
            "here"
        )
    return suppressed, notes


def _is_ids(value):
    return isinstance(value, list) and all(type(each) is int for each in value)


def _is_count(value):
    return type(value) is int and value >= 0
