"""A Transformer made of keras-hub layers."""

import keras
import keras_hub
from keras import ops

import keras_transformer as kt
from benchmarks.peers.keras_fit import KerasFit
from keras_transformer.config import PAD_ID


def make(job):
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(job.precision)
    model = _model(job.config)
    model.compile(
        optimizer=keras.optimizers.Adam(
            kt.TransformerSchedule(job.config.d_model, job.config.warmup_steps),
            beta_1=job.config.adam_beta_1,
            beta_2=job.config.adam_beta_2,
            epsilon=job.config.adam_epsilon,
        ),
        loss=_smoothed_loss(job.config.label_smoothing),
    )
    peer = KerasFit(model, [batch.pad_ids for batch in job.batches])
    peer.note = f"keras-hub {keras_hub.__version__} layers, {peer.note}"
    return peer


def _model(config):
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embedding = keras.layers.ReversibleEmbedding(
        config.vocabulary_size,
        config.d_model,
        embeddings_initializer=keras.initializers.RandomNormal(
            stddev=config.d_model**-0.5
        ),
    )

    def embed(ids):
        embedded = embedding(ids) * config.d_model**0.5
        embedded = embedded + keras_hub.layers.SinePositionEncoding()(embedded)
        return keras.layers.Dropout(config.dropout)(embedded)

    source_mask, target_mask = source != PAD_ID, target != PAD_ID
    memory = embed(source)
    for _ in range(config.num_layers):
        memory = _layer(keras_hub.layers.TransformerEncoder, config)(
            memory, padding_mask=source_mask
        )
    states = embed(target)
    for _ in range(config.decoder_layers):
        states = _layer(keras_hub.layers.TransformerDecoder, config)(
            states,
            memory,
            decoder_padding_mask=target_mask,
            encoder_padding_mask=source_mask,
        )
    model = keras.Model(
        {"source": source, "target": target},
        embedding(states, reverse=True),
    )
    _disable_attention_dropout(model)
    return model


def _layer(kind, config):
    return kind(
        config.d_ff,
        config.num_heads,
        dropout=config.dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
    )


def _disable_attention_dropout(model):
    """Matches the other systems, which have no attention dropout."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.MultiHeadAttention):
            layer._dropout = 0.0


def _smoothed_loss(smoothing):
    """Returns a smoothed Keras loss without a one-hot [B, T, V]."""

    def loss(labels, logits):
        logits = ops.cast(logits, "float32")
        plain = keras.losses.sparse_categorical_crossentropy(
            labels, logits, from_logits=True
        )
        uniform = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
        real = ops.cast(labels != PAD_ID, "float32")
        losses = (1.0 - smoothing) * plain + smoothing * uniform
        return ops.sum(losses * real) / ops.sum(real)

    return loss
