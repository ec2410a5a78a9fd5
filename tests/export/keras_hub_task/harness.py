"""KerasHub's own tests on our four classes.

python -m pytest tests/export/keras_hub_task/harness.py

With KERAS_BACKEND=jax on JAX; test_keras_hub_harness runs both.
"""

import pathlib

import numpy as np
from keras_hub.src.tests.test_case import TestCase

from export.keras_hub_task import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from tests import made_up_text
from tests.export import tiny

CONFIG = tiny.CONFIG | {"num_layers": 1}
TEXTS = made_up_text.sentences()[:2]
PAIRS = {"encoder_text": TEXTS, "decoder_text": TEXTS[::-1]}
LENGTHS = {"encoder_sequence_length": 12, "decoder_sequence_length": 9}


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
            CONFIG,
            ids(),
            {
                "encoder_sequence_output": (2, 7, 16),
                "decoder_sequence_output": (2, 5, 16),
            },
            run_quantization_check=False,
        )

    def test_saving(self):
        self.run_model_saving_test(TransformerBackbone, CONFIG, ids())


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
            "backbone": TransformerBackbone(**CONFIG),
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
        tiny.write(pathlib.Path(model), num_layers=1)
        task = TransformerSeq2SeqLM.from_preset(model)
        task.save_to_preset(preset)
        for path in (model, preset):
            self.run_preset_test(
                TransformerSeq2SeqLM, path, ids(), expected_output=task(ids())
            )
