"""The translator as a graph that TensorFlow Serving can run."""

import tensorflow as tf

import keras_transformer as kt
from export.limits import source_limit
from keras_transformer.special_ids import END_ID


class ServedTranslator(tf.Module):
    """Text in, text out, with everything between inside the graph.

    The Keras model itself is not an attribute: a SavedModel that holds a
    Keras 3 model passes `tf.saved_model.load` and fails in the server. Its
    variables are, and each is stored once.

    Args:
        model: Transformer.
        tokenizer: Tokenizer.
        max_source_tokens: longer sources are cut to this many ids, the end
            id counted: one over-long text must not fail a merged batch.
    """

    def __init__(self, model, tokenizer, max_source_tokens):
        super().__init__(name="served_translator")
        self.tokenizer = tokenizer
        self.max_source_tokens = source_limit(model.config, max_source_tokens)
        self.model_variables = [variable.value for variable in model.weights]
        self._translate_ids = lambda source: kt.translate_ids_in_segments(
            model, source, kt.output_room(source, model.config)
        )

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,
    )
    def translate(self, text):
        """The signature `serving_default`.

        Args:
            text: string [B], a sentence each. Bytes that are not UTF-8 count
                as U+FFFD; empty text, or only spaces, gives empty text.

        Returns:
            `translation`, string [B], and `score`, float32 [B]:
            log-probability / length penalty, 0 for empty text.
        """
        source = self._source_ids(text)
        tokens, scores, *_ = self._translate_ids(source)
        is_text = tf.reduce_sum(tf.cast(source != 0, tf.int32), axis=1) > 1
        translation = self.tokenizer.detokenize(tokens[:, 0])
        return {
            "translation": tf.where(is_text, translation, ""),
            "score": tf.where(is_text, scores[:, 0], 0.0),
        }

    def _source_ids(self, text):
        ids = self.tokenizer.tokenize(text)
        too_long = ids.row_lengths() > self.max_source_tokens
        kept = ids[:, : self.max_source_tokens].to_tensor()
        places = tf.range(tf.shape(kept)[1])
        is_cut = too_long[:, None] & (places == self.max_source_tokens - 1)
        return tf.where(is_cut, END_ID, kept)
