"""The translator as a KerasHub sequence-to-sequence task."""

import os
import typing
from collections.abc import Mapping, Sequence

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import (
    FromPresetMixin,
    TransformerBackbone,
    move_given_tokens,
)
from export.keras_hub_task.preprocessor import TransformerSeq2SeqLMPreprocessor
from export.keras_hub_task.sampling import sample_translations
from export.keras_hub_task.search import FixedShapeBackend, TranslationSearch
from export.model_directory import ModelDirectory
from export.translators.model_backend import model_for_tokenizer
from export.translators.translator import Translator
from keras_transformer.config import PAD_ID
from keras_transformer.ids import validate_ids
from keras_transformer.schedule import update_schedule
from keras_transformer.types import Tensor, TensorLike


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSeq2SeqLM(FromPresetMixin, keras_hub.models.Seq2SeqLM):
    """Translates strings, and trains on pairs of strings.

    Called on inputs of TransformerBackbone, it returns logits, float32
    [B, T, V]. `preprocessor` is a TransformerSeq2SeqLMPreprocessor, or None to
    generate ids from ids. Raises ValueError if the vocabulary sizes of
    preprocessor and backbone differ.

    Examples:
        >>> task = TransformerSeq2SeqLM.from_preset("runs/demo")
        >>> task.generate(["How are you?"])
        ['Comment vas-tu ?']
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: TransformerBackbone,
        preprocessor: TransformerSeq2SeqLMPreprocessor | None = None,
        **kwargs: typing.Any,
    ):
        self.backbone = backbone
        self.preprocessor = preprocessor
        tokenizer = getattr(preprocessor, "tokenizer", None)
        if tokenizer is not None and tokenizer.proto is not None:
            config, target = backbone.config, tokenizer.target
            sizes = tokenizer.source.vocabulary_size, target.vocabulary_size
            expected = config.encoder_vocabulary_size, config.vocabulary_size
            if sizes != expected:
                raise ValueError(
                    f"Expected a preprocessor with {expected} source and "
                    f"target tokens, as the backbone, got {sizes}."
                )
            if config.positions == "learned":
                _limit_lengths(preprocessor, config.max_positions)
        states = backbone(backbone.input)["decoder_sequence_output"]
        logits = _Logits(
            backbone.transformer.output_embedding,
            dtype=backbone.dtype_policy,
            name="logits",
        )
        super().__init__(
            inputs=backbone.input, outputs=logits(states), **kwargs
        )

    def compile(
        self,
        optimizer: typing.Any = "auto",
        loss: typing.Any = "auto",
        *,
        sampler: typing.Any = "auto",
        jit_compile: bool | str = "auto",
        **kwargs: typing.Any,
    ) -> None:
        """Configures training and generation.

        Args:
            optimizer: "auto" for Adam with the paper's schedule and the
                configuration's settings (section 5.3).
            loss: "auto" for kt.LabelSmoothedCrossEntropy (section 5.4).
            sampler: "auto" for TranslationSearch, or a KerasHub sampler or its
                name: "greedy", "random", "top_k", "top_p" or "beam".
            jit_compile: "auto" to compile on JAX alone; with TensorFlow, XLA is
                no faster on a CPU.
            **kwargs: arguments of `keras.Model.compile`; `weighted_metrics` is
                token accuracy by default.
        """
        sampler = _resolve_sampler(sampler)
        config = self.backbone.config
        if optimizer == "auto":
            optimizer = keras.optimizers.Adam(
                update_schedule(config),
                beta_1=config.adam_beta_1,
                beta_2=config.adam_beta_2,
                epsilon=config.adam_epsilon,
                global_clipnorm=config.clip_norm or None,
            )
        if loss == "auto":
            loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        if jit_compile == "auto":
            jit_compile = keras.backend.backend() == "jax"
        super().compile(
            optimizer=optimizer,
            loss=loss,
            sampler=sampler,
            jit_compile=jit_compile,
            **kwargs,
        )
        # By max_length; cleared as KerasHub's `compile`, which the constructor
        # of the base class calls, clears `generate_function`.
        self._translators: dict[int | None, Translator] = {}

    def generate(
        self,
        inputs: typing.Any,
        max_length: int | None = None,
        stop_token_ids: Sequence[int] | str | None = "auto",
        strip_prompt: bool = False,
    ) -> str | list[str] | dict[str, np.ndarray]:
        """Translates a string or a list of strings, by search or sampling.

        With TranslationSearch the texts are the same as in `export.translate`,
        and sentences of similar length are searched together.

        Args:
            inputs: a string or several; a dict of `encoder_text` and
                `decoder_text`, the prefixes of translations; or a
                tf.data.Dataset of batches of these.
            max_length: maximum number of tokens of a translation, begin and end
                included, at least 2; by default from the configuration, or with
                KerasHub samplers from the preprocessor.
            stop_token_ids: for KerasHub samplers, the ids that end a
                translation: "auto" for the end id, several, or None.
            strip_prompt: whether to remove the prefixes.

        Raises ValueError if a text is not UTF-8, an id is outside the
        vocabulary or an argument is wrong, and InputError if the preprocessor
        lacks the languages of a text.
        """
        if self.preprocessor is None and max_length is not None:
            raise ValueError(
                "Expected no max_length without a preprocessor: the width "
                f"of decoder_token_ids is the limit. Got {max_length!r}."
            )
        is_dataset = isinstance(inputs, tf.data.Dataset)
        batches = inputs.as_numpy_iterator() if is_dataset else [inputs]
        arguments = stop_token_ids, strip_prompt
        if self.preprocessor is None:
            outputs = [self._generate_ids(each, *arguments) for each in batches]
            return {
                name: np.concatenate([output[name] for output in outputs])
                for name in outputs[0]
            }
        self._validate_arguments(max_length, stop_token_ids)
        outputs = [
            text
            for batch in batches
            for text in self._generate_texts(batch, max_length, *arguments)
        ]
        if is_dataset:
            return outputs
        texts = inputs["encoder_text"] if isinstance(inputs, dict) else inputs
        # Arrays and tensors of strings have dimensions, one string has none.
        is_batch = isinstance(texts, list) or np.ndim(texts) > 0
        return outputs if is_batch else outputs[0]

    def _validate_arguments(self, max_length, stop_token_ids):
        """Raises ValueError if arguments of `generate` for texts are wrong."""
        is_search = isinstance(self.sampler, TranslationSearch)
        if is_search and stop_token_ids != "auto":
            raise ValueError(
                "Expected no stop_token_ids with TranslationSearch; only "
                "KerasHub's samplers take them."
            )
        # isinstance would accept True.
        if max_length is not None and (
            type(max_length) is not int or max_length < 2
        ):
            raise ValueError(
                f"Expected max_length of at least 2, got {max_length!r}."
            )

    def _generate_ids(self, inputs, stop_token_ids, strip_prompt):
        """Translates one batch of ids, without a preprocessor."""
        if isinstance(inputs, dict):
            config = self.backbone.config
            for side, size in (
                ("encoder", config.encoder_vocabulary_size),
                ("decoder", config.vocabulary_size),
            ):
                validate_ids(inputs[f"{side}_token_ids"], size, "id")
        return super().generate(inputs, None, stop_token_ids, strip_prompt)

    def _generate_texts(self, inputs, max_length, stop_token_ids, strip_prompt):
        """Returns the translations of a batch of texts, or of one text."""
        sources, prefixes = _read_texts(inputs)
        if not sources:
            return []
        sources = [*map(self.preprocessor.languages.tag, sources)]
        translator = self._get_translator(max_length)
        # Before the search: raises ValueError for unknown characters.
        normalized_prefixes = translator.normalize_prefixes(
            prefixes, keep_long=False
        )
        if isinstance(self.sampler, TranslationSearch):
            translations = translator.translate(
                sources, prefixes=prefixes if any(prefixes) else None
            )
            texts = [translation.text for translation in translations]
        else:
            pairs = {"encoder_text": sources, "decoder_text": prefixes}
            # `max_length` does not count the target's tag.
            length = max_length or self.preprocessor.sequence_length
            length += self.preprocessor.tokenizer.num_given_tokens
            texts = super().generate(pairs, length, stop_token_ids)
        if strip_prompt:
            return map(_strip_prefix, texts, normalized_prefixes)
        return texts

    def _get_translator(self, max_length):
        """Returns a Translator; samplers use only its prefixes."""
        if max_length in self._translators:
            return self._translators[max_length]
        model, sampler = self.backbone.transformer, self.sampler
        tokenizer = self.preprocessor.tokenizer
        is_search = isinstance(sampler, TranslationSearch)
        # `max_length` counts the begin id.
        max_tokens = None if max_length is None else max_length - 1
        if is_search and keras.backend.backend() == "tensorflow":
            settings = {"max_output_tokens": max_tokens, **sampler.settings}
            translator = Translator.from_model(model, tokenizer, **settings)
        else:
            config = (
                sampler.resolve_config(model) if is_search else model.config
            )
            function = self.make_generate_function()
            translator = Translator(
                FixedShapeBackend(function, tokenizer, config, max_tokens)
            )
        self._translators[max_length] = translator
        return translator

    def generate_step(
        self,
        inputs: Mapping[str, TensorLike],
        stop_token_ids: Sequence[int] | None = None,
    ) -> dict[str, Tensor]:
        """Translates one batch of ids; `generate` compiles this function.

        `inputs` are a TransformerBackbone's; the decoder's are the begin id,
        the target's tag or none, the prefix of the translation, and padding to
        the maximum length. `stop_token_ids` is for KerasHub samplers. Returns a
        dict of `decoder_token_ids` and `decoder_padding_mask`, int32 [B, T].
        """
        model = self.backbone.transformer
        if self.preprocessor is not None:
            model = model_for_tokenizer(model, self.preprocessor.tokenizer)
        count = model.num_given_tokens
        moved = move_given_tokens(inputs, count)
        if isinstance(self.sampler, TranslationSearch):
            ids = self.sampler.search(model, moved)
            mask = ops.not_equal(ids, PAD_ID)
        else:
            ids, mask = sample_translations(self, model, moved, stop_token_ids)
        outputs = {"decoder_token_ids": ids, "decoder_padding_mask": mask}
        for name, output in outputs.items():
            given = inputs[name][:, 1 : 1 + count]
            parts: typing.Any = output[:, :1], given, output[:, 1:]
            parts = [ops.cast(part, "int32") for part in parts]
            outputs[name] = ops.concatenate(parts, axis=1)
        return outputs

    @classmethod
    def from_preset(
        cls,
        preset: str,
        source_language: str | None = None,
        target_language: str | None = None,
        **kwargs: typing.Any,
    ) -> typing.Self:
        """Loads a model directory or preset, also for other languages.

        Raises ValueError or InputError if it is none or lacks a language.
        """
        task = super().from_preset(preset, **kwargs)
        if source_language or target_language:
            preprocessor: typing.Any = task.preprocessor
            selected = preprocessor.languages.select(
                source_language, target_language
            )
            preprocessor.source_language = selected.source
            preprocessor.target_language = selected.target
        return task

    @classmethod
    def from_directory(
        cls,
        directory: ModelDirectory,
        load_weights: bool = True,
        dtype: typing.Any = None,
        **kwargs: typing.Any,
    ) -> typing.Self:
        """Returns the task of a ModelDirectory."""
        if "preprocessor" not in kwargs:
            kwargs["preprocessor"] = cls.preprocessor_cls.from_directory(
                directory
            )
        if "backbone" not in kwargs:
            kwargs["backbone"] = TransformerBackbone.from_directory(
                directory, load_weights, dtype=dtype
            )
        return cls(**kwargs)


class _Logits(keras.layers.Layer):
    """The projection to logits as a layer of a functional model."""

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding
        self.built = True

    def call(self, states):
        return self.embedding.logits(states)


def _limit_lengths(preprocessor, max_positions):
    """Lowers the lengths of a preprocessor to those that a model can embed."""
    most = max_positions - preprocessor.tokenizer.num_given_tokens
    for name in ("encoder_sequence_length", "decoder_sequence_length"):
        setattr(preprocessor, name, min(getattr(preprocessor, name), most))


def _resolve_sampler(sampler):
    if sampler == "auto":
        return TranslationSearch()
    samplers = keras_hub.samplers
    instance = samplers.get(sampler)
    # These sample excluded tokens, or need a second model.
    unsupported = samplers.ContrastiveSampler, samplers.SpeculativeSampler
    if isinstance(instance, unsupported):
        raise ValueError(
            "Expected auto, greedy, random, top_k, top_p or beam as sampler, "
            f"got {sampler!r}."
        )
    return instance


def _strip_prefix(text, prefix):
    """Removes a prefix from a text, which may begin with only a part of it."""
    return text.removeprefix(os.path.commonprefix([text, prefix]))


def _read_texts(inputs):
    """Returns lists of str: sources, and prefixes of translations."""
    if not isinstance(inputs, dict):
        inputs = {"encoder_text": inputs}
    if "encoder_text" not in inputs:
        raise ValueError(f"Expected encoder_text, got only {sorted(inputs)}.")
    sources, targets = (
        _decode(inputs["encoder_text"]),
        inputs.get("decoder_text"),
    )
    prefixes = [""] * len(sources) if targets is None else _decode(targets)
    if len(prefixes) != len(sources):
        raise ValueError(
            f"Expected {len(sources)} texts in decoder_text, as in "
            f"encoder_text, got {len(prefixes)}."
        )
    return sources, prefixes


def _decode(texts):
    """Returns a list of str for text in any form."""
    if isinstance(texts, (str, bytes)):
        texts = [texts]
    elif not isinstance(texts, (list, tuple)):
        texts = np.atleast_1d(ops.convert_to_numpy(texts)).tolist()
    texts = [t.decode() if isinstance(t, bytes) else t for t in texts]
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"Expected a string, got {text!r}.")
    return texts
