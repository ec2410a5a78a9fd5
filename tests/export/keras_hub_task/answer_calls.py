"""Answers calls of `generate` on the backend that KERAS_BACKEND names.

python -m tests.export.keras_hub_task.answer_calls MODEL_DIR < calls > answers

A call is a sampler's name, the arguments of TranslationSearch or {}, and the
arguments of `generate`; an answer is what it returned, or the kind of error
and its message. Both are JSON.
"""

import json
import sys
import warnings

from export.keras_hub_task import TransformerSeq2SeqLM, TranslationSearch


def answers(path, calls):
    """Returns a list of what the calls gave."""
    task = TransformerSeq2SeqLM.from_preset(path)
    task.preprocessor.encoder_sequence_length = 12
    task.preprocessor.decoder_sequence_length = 10
    found, before = [], None
    for sampler, search, arguments in calls:
        if (sampler, search) != before:
            made = TranslationSearch(**search) if search else sampler
            task.compile(sampler=made)
            before = (sampler, search)
        try:
            found.append(task.generate(**arguments))
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(answers(sys.argv[1], json.load(sys.stdin)), sys.stdout)
