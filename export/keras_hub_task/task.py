"""The translator as KerasHub's sequence-to-sequence task."""

import itertools

import keras
import keras_hub
import tensorflow as tf
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.arguments import (
    chosen_sampler,
    is_single,
    sources_and_prompts,
    stop_ids,
    whole_number,
    without_prompt,
)
from export.keras_hub_task.backbone import (
    TransformerBackbone,
)
from export.keras_hub_task.directories import FromModelDirectory
from export.keras_hub_task.preprocessor import TransformerSeq2SeqLMPreprocessor
from export.keras_hub_task.sampling import sample
from export.keras_hub_task.search import ShapedTranslator, TranslationSearch
from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from keras_transformer.config import PAD_ID
from keras_transformer.schedule import update_schedule


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSeq2SeqLM(FromModelDirectory, keras_hub.models.Seq2SeqLM):
    """Translates strings, and learns from pairs of strings.

    Called on a batch as the backbone takes it, it returns logits, float32
    [B, T, V].

    Args:
        backbone: TransformerBackbone.
        preprocessor: TransformerSeq2SeqLMPreprocessor, or None for ids.
        **kwargs: of Seq2SeqLM.

    Raises:
        ValueError: the preprocessor's vocabulary is of another size.

    Example:
        >>> task = TransformerSeq2SeqLM.from_preset("runs/demo")
        >>> task.generate(["How are you?"])
        ['Comment vas-tu ?']
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerSeq2SeqLMPreprocessor

    def __init__(self, backbone, preprocessor=None, **kwargs):
        self.backbone = backbone
        self.preprocessor = preprocessor
        _check_vocabulary(backbone, preprocessor)
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
        optimizer="auto",
        loss="auto",
        *,
        weighted_metrics="auto",
        sampler="auto",
        jit_compile="auto",
        **kwargs,
    ):
        """Configures training and generation.

        Args:
            optimizer: "auto" for Adam with the paper's schedule and the
                configuration's numbers (section 5.3).
            loss: "auto" for kt.LabelSmoothedCrossEntropy (section 5.4).
            weighted_metrics: "auto" for the accuracy of tokens.
            sampler: "auto" for TranslationSearch, our beam search; or one of
                KerasHub's samplers or its name: "greedy", "random", "top_k",
                "top_p" or "beam".
            jit_compile: "auto" to compile on JAX alone; with TensorFlow XLA
                gains nothing on a CPU.
            **kwargs: of `keras.Model.compile`.

        Raises:
            ValueError: it is another sampler.
        """
        sampler = chosen_sampler(sampler)
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
            weighted_metrics=weighted_metrics,
            sampler=sampler,
            jit_compile=jit_compile,
            **kwargs,
        )
        self._forget_compiled()

    def generate(
        self,
        inputs,
        max_length=None,
        stop_token_ids="auto",
        strip_prompt=False,
    ):
        """Translates, or samples translations.

        With TranslationSearch the texts are those of `export.translate`:
        sentences of like length are searched for together. With KerasHub's
        samplers inputs are one batch, or those of a data set, as in every
        KerasHub task. On every backend the limits are the same.

        Args:
            inputs: a string or several, a dict of `encoder_text` and
                `decoder_text`, what translations begin with, or a
                tf.data.Dataset of batches of these.
            max_length: tokens of a translation, with begin and end, 2 at
                least; by default as many as the configuration allows for its
                source, and with KerasHub's samplers the preprocessor's length.
            stop_token_ids: several ids, or None, of KerasHub's samplers alone.
            strip_prompt: whether to leave out what translations began with,
                as the vocabulary spells it.

        Returns:
            A string, or a list of strings.

        Raises:
            ValueError: text is not UTF-8, there are more texts of one kind
                than of the other, what a translation begins with has an
                unknown character, or an option is out of range or does not
                go with TranslationSearch.
        """
        if self._compiled_rank != self.backbone.lora_rank:
            self._forget_compiled()
        searching = isinstance(self.sampler, TranslationSearch)
        if self.preprocessor is None:
            return super().generate(
                inputs, max_length, stop_token_ids, strip_prompt
            )
        if searching and stop_token_ids != "auto":
            raise ValueError(
                "TranslationSearch ends with the end id alone; leave out "
                "stop_token_ids, or compile with one of KerasHub's samplers."
            )
        if isinstance(inputs, tf.data.Dataset):
            batches = [
                sources_and_prompts(each) for each in inputs.as_numpy_iterator()
            ]
            single = False
        else:
            batches = [sources_and_prompts(inputs)]
            single = is_single(inputs)
        if searching:
            # As many at once as have like lengths.
            sides = zip(([], []), *batches)
            batches = [[[*itertools.chain(*side)] for side in sides]]
        max_length = whole_number("max_length", max_length, 2)
        if not isinstance(stop_token_ids, (str, type(None))):
            stop_token_ids = stop_ids(stop_token_ids)
        translator, found = self._translator(max_length), []
        for sources, prompts in batches:
            if not sources:
                continue
            spelt = translator.spell(prompts)
            if searching:
                given = prompts if any(prompts) else None
                answers = translator.translate(sources, prefixes=given)
                texts = [each.text for each in answers]
            else:
                texts = super().generate(
                    {"encoder_text": sources, "decoder_text": prompts},
                    max_length,
                    stop_token_ids,
                )
            if strip_prompt:
                texts = map(without_prompt, texts, spelt)
            found.extend(texts)
        return found[0] if single else found

    def _forget_compiled(self):
        # What was compiled before LoRA was on would go on without it.
        self.generate_function = None
        self._translators = {}
        self._compiled_rank = self.backbone.lora_rank

    def _translator(self, max_length):
        """Returns what limits texts, and searches with TranslationSearch."""
        if max_length not in self._translators:
            transformer = self.backbone.transformer
            tokenizer = Tokenizer(self.preprocessor.tokenizer.proto)
            search, most = self.sampler, max_length and max_length - 1
            if not isinstance(search, TranslationSearch):
                search = TranslationSearch()
            if keras.backend.backend() == "tensorflow":
                made = Translator(
                    transformer,
                    tokenizer,
                    max_output_tokens=most,
                    **search.settings,
                )
            else:
                made = ShapedTranslator(
                    self.make_generate_function(),
                    tokenizer,
                    search.config_of(transformer),
                    most,
                )
            self._translators[max_length] = made
        return self._translators[max_length]

    def generate_step(self, inputs, stop_token_ids=None):
        """Translates one batch of ids; compiled by `generate`.

        Args:
            inputs: dict as the backbone takes it; the decoder's ids are what
                translations begin with, and have their length.
            stop_token_ids: ids that end a translation, for KerasHub's
                samplers; None for none.

        Returns:
            dict of `decoder_token_ids` and `decoder_padding_mask`, int32
            [B, T].
        """
        transformer = self.backbone.transformer
        if isinstance(self.sampler, TranslationSearch):
            ids = self.sampler.find(transformer, inputs)
            mask = ops.not_equal(ids, PAD_ID)
        else:
            ids, mask = sample(self, transformer, inputs, stop_token_ids)
        return {
            "decoder_token_ids": ids,
            "decoder_padding_mask": ops.cast(mask, "int32"),
        }

    @classmethod
    def of_directory(cls, directory, load_weights=True, dtype=None, **kwargs):
        """Returns the task of a ModelDirectory.

        Args:
            directory: ModelDirectory.
            load_weights: as for TransformerBackbone.
            dtype: a Keras dtype policy.
            **kwargs: of the constructor.

        Raises:
            InputError: it is not whole, or no translator's.
        """
        if "preprocessor" not in kwargs:
            made = TransformerSeq2SeqLMPreprocessor.of_directory(directory)
            kwargs["preprocessor"] = made
        if "backbone" not in kwargs:
            kwargs["backbone"] = TransformerBackbone.of_directory(
                directory, load_weights, dtype=dtype
            )
        return cls(**kwargs)


@keras.saving.register_keras_serializable("keras_transformer")
class _Logits(keras.layers.Layer):
    """The pre-softmax product as a layer of a functional model."""

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding
        self.built = True

    def call(self, states):
        """Returns float32 [B, T, V] of float [B, T, D]."""
        return self.embedding.logits(states)


def _check_vocabulary(backbone, preprocessor):
    tokenizer = getattr(preprocessor, "tokenizer", None)
    if tokenizer is None or tokenizer.proto is None:
        return
    found, expected = tokenizer.vocabulary_size(), backbone.config
    if found != expected.vocabulary_size:
        raise ValueError(
            f"The preprocessor's vocabulary has {found} pieces and the "
            f"backbone's vocabulary_size is {expected.vocabulary_size}; give "
            "two of the same training."
        )
