"""What `compile` and `generate` of the task are given, checked."""

import contextlib
import operator
import os

import keras_hub
import numpy as np
from keras import ops

from export.keras_hub_task.search import TranslationSearch


def chosen_sampler(sampler):
    """Returns the Sampler of a name; refuses those that do not fit."""
    if isinstance(sampler, str) and sampler == "auto":
        return TranslationSearch()
    samplers = keras_hub.samplers
    with contextlib.suppress(KeyError, TypeError, ValueError):
        found = samplers.get(sampler)
        # These two choose among tokens that are not possible, or need another
        # model.
        others = samplers.ContrastiveSampler, samplers.SpeculativeSampler
        is_sampler = isinstance(found, samplers.Sampler)
        if is_sampler and not isinstance(found, others):
            return found
    raise ValueError(
        f"The sampler {sampler!r} is none that this task can use; give auto, "
        "greedy, random, top_k, top_p or beam, or a sampler of these classes."
    )


def whole_number(name, value, least):
    """Returns a whole number, or None as it is."""
    if value is None:
        return None
    with contextlib.suppress(TypeError):
        number = operator.index(value)
        if number >= least and not isinstance(value, (bool, np.bool_)):
            return number
    raise ValueError(
        f"{name} must be a whole number from {least}, not {value!r}."
    )


def stop_ids(ids):
    """Returns stop_token_ids as a tuple of int."""
    if np.ndim(ids) != 1 or not len(ids):
        raise ValueError(
            f"stop_token_ids must be a list of ids, auto or None, not {ids!r}."
        )
    return tuple(whole_number("An id of stop_token_ids", i, 0) for i in ids)


def without_prompt(text, prompt):
    """Returns a text without what it began with."""
    # All that is left of a prompt that was truncated.
    return text[len(os.path.commonprefix([text, prompt])) :]


def is_single(inputs):
    """Returns whether the inputs of `generate` are one sentence."""
    first = inputs["encoder_text"] if isinstance(inputs, dict) else inputs
    if isinstance(first, (list, tuple)):
        return False
    return isinstance(first, (str, bytes)) or np.ndim(first) == 0


def sources_and_prompts(inputs):
    """Returns lists of str: sources, and what translations begin with."""
    if not isinstance(inputs, dict):
        inputs = {"encoder_text": inputs}
    if "encoder_text" not in inputs:
        raise ValueError("The inputs have no encoder_text; give the sources.")
    sources = _strings(inputs["encoder_text"])
    prompts = inputs.get("decoder_text")
    if prompts is None:
        return sources, [""] * len(sources)
    prompts = _strings(prompts)
    if len(prompts) != len(sources):
        raise ValueError(
            f"There are {len(sources)} in encoder_text and {len(prompts)} in "
            "decoder_text; give as many of each."
        )
    return sources, prompts


def _strings(texts):
    if isinstance(texts, (str, bytes)):
        texts = [texts]
    elif not isinstance(texts, (list, tuple)):
        texts = np.atleast_1d(ops.convert_to_numpy(texts)).tolist()
    found = []
    for number, text in enumerate(texts, start=1):
        if isinstance(text, bytes):
            try:
                text = text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"Text {number} is not UTF-8.") from error
        if not isinstance(text, str):
            raise ValueError(
                f"Text {number} is no string, but {type(text).__name__}."
            )
        found.append(text)
    return found
