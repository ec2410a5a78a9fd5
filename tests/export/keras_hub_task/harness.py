"""KerasHub's own tests on our four classes, and what `generate` answers.

python -m pytest tests/export/keras_hub_task/harness.py

With KERAS_BACKEND=jax on JAX; test_keras_hub.py runs both. Run as a module with
"calls" or "languages" and paths of model directories, it writes the answers as
JSON.
"""

import json
import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest
from keras_hub.src.tests.test_case import TestCase

from export.keras_hub_task import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
    TranslationSearch,
)
from tests import made_up_text
from tests.export import tiny
from tests.export.keras_hub_task import several_languages

# Keras' and KerasHub's own, of every task.
IGNORED_WARNINGS = [
    pytest.mark.filterwarnings("ignore:.*compile.. was not called"),
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
    pytest.mark.filterwarnings("ignore:unclosed file.*vocabulary.spm"),
]
TEXTS = made_up_text.sentences()[:2]
PAIRS = {"encoder_text": TEXTS, "decoder_text": TEXTS[::-1]}
LENGTHS = {"encoder_sequence_length": 12, "decoder_sequence_length": 9}
# Arguments of `generate`, also wrong ones.
PREFIXES = {
    **dict.fromkeys(TEXTS, ""),
    **{"": "", "  ": "ba", "ba ka do " * 9: "ba ka do " * 9},
    "\u6f22 ba </s>": "\ufb01  b\u00e0 ",
}
BOTH = {"encoder_text": [*PREFIXES], "decoder_text": [*PREFIXES.values()]}
ARGUMENTS = [
    # Over hundreds of tokens rounding decides between hypotheses: cut it short.
    {"inputs": "ba ka do " * 200, "max_length": 16},
    {"inputs": BOTH | {"decoder_text": ["ba"]}},
    {"inputs": {"encoder_text": "ba", "decoder_text": "\u6f22"}},
    *({"inputs": BOTH, "max_length": n} for n in (None, 2, 9, 0, "7")),
    {"inputs": BOTH, "strip_prompt": True},
    *({"inputs": BOTH, "stop_token_ids": ids} for ids in ([3, 9], None)),
]


def tokenizer():
    return TransformerTokenizer(made_up_text.vocabulary())


def preprocessor():
    return TransformerSeq2SeqLMPreprocessor(tokenizer(), **LENGTHS)


def ids():
    generator = np.random.default_rng(1)
    found = {}
    for side, length in (("encoder", 7), ("decoder", 5)):
        found[f"{side}_token_ids"] = generator.integers(4, 200, (2, length))
        found[f"{side}_padding_mask"] = np.ones((2, length))
    return {name: each.astype("int32") for name, each in found.items()}


class BackboneTest(TestCase):
    def test_backbone(self):
        self.run_backbone_test(
            TransformerBackbone,
            tiny.CONFIG,
            ids(),
            {
                "encoder_sequence_output": (2, 7, 16),
                "decoder_sequence_output": (2, 5, 16),
            },
            run_quantization_check=False,
        )

    def test_saving(self):
        self.run_model_saving_test(TransformerBackbone, tiny.CONFIG, ids())


class TokenizerTest(TestCase):
    def test_tokenizer(self):
        self.run_preprocessing_layer_test(
            TransformerTokenizer, {"proto": made_up_text.vocabulary()}, TEXTS
        )


class PreprocessorTest(TestCase):
    def setUp(self):
        super().setUp()
        # The harness reads it.
        self.init_kwargs = {"tokenizer": tokenizer(), **LENGTHS}

    def test_preprocessor(self):
        self.run_preprocessor_test(
            TransformerSeq2SeqLMPreprocessor,
            self.init_kwargs,
            PAIRS,
            token_id_key="decoder_token_ids",
        )


class TaskTest(TestCase):
    def setUp(self):
        super().setUp()
        self.init_kwargs = {
            "backbone": TransformerBackbone(**tiny.CONFIG),
            "preprocessor": preprocessor(),
        }

    def test_task(self):
        self.run_task_test(
            TransformerSeq2SeqLM,
            self.init_kwargs,
            (PAIRS,),
            expected_output_shape=(2, 9, 200),
        )

    def test_saving(self):
        self.run_model_saving_test(
            TransformerSeq2SeqLM, self.init_kwargs, ids()
        )

    def test_preset(self):
        model, preset = (f"{self.get_temp_dir()}/{each}" for each in "mp")
        tiny.write(pathlib.Path(model))
        task = TransformerSeq2SeqLM.from_preset(model)
        task.save_to_preset(preset)
        for path in (model, preset):
            self.run_preset_test(
                TransformerSeq2SeqLM, path, ids(), expected_output=task(ids())
            )


def answer_calls(path):
    """Returns what `generate` returned, or the message of a ValueError."""
    task = TransformerSeq2SeqLM.from_preset(path)
    task.preprocessor = preprocessor()
    answers = []
    search = TranslationSearch(beam_size=2, max_extra_tokens=2)
    for sampler in ("auto", "greedy", "beam", search):
        task.compile(sampler=sampler)
        few = sampler in ("beam", search)
        for arguments in [{"inputs": BOTH}] if few else ARGUMENTS:
            try:
                answers.append(task.generate(**arguments))
            except ValueError as error:
                answers.append({"error": str(error)})
    return answers


def answer_languages(path):
    """Returns what `generate` returned for texts of several languages."""
    task = TransformerSeq2SeqLM.from_preset(path)
    texts, prefixes = several_languages.TEXTS, several_languages.PREFIXES
    answers = []
    for sampler in ("auto", "greedy"):
        task.compile(sampler=sampler)
        for given in (None, prefixes):
            inputs = {"encoder_text": texts, "decoder_text": given}
            answers.append(task.generate(inputs, max_length=7))
    pairs = {"encoder_text": texts[:2], "decoder_text": texts[1::-1]}
    task.fit(pairs, batch_size=2, verbose=0)
    return answers


def run(backend, *arguments):
    """Runs `python -m` with a backend; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tiny.ROOT,
        env=os.environ | {"KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer = {"calls": answer_calls, "languages": answer_languages}[sys.argv[1]]
    json.dump([*map(answer, sys.argv[2:])], sys.stdout)
