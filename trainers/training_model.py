"""The Transformer with the training step that tf.distribute needs.

Keras normalises a loss per replica and averages the replicas, which weighs
tokens unequally when padding differs. Here the loss is the sum over target
tokens divided by the tokens of the global batch.
"""

import keras
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.special_ids import PAD_ID
from trainers.replica_seeds import ReplicaSeeds
from trainers.token_metrics import TokenMetrics
from trainers.update_schedule import UpdateSchedule


class TrainingTransformer(kt.Transformer):
    """A Transformer for `model.fit` under any tf.distribute strategy.

    Make and compile it inside the strategy's scope.

    Args:
        config: TransformerConfig.
        compile_gradient: whether XLA compiles loss and gradient, once for
            each shape. Keras' own `jit_compile` wraps the strategy and
            breaks with several replicas.
        **kwargs: of `keras.Model`.
    """

    def __init__(self, config, compile_gradient=False, **kwargs):
        super().__init__(config, **kwargs)
        self.token_loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self.token_metrics = TokenMetrics()
        self.seeds = ReplicaSeeds(self)
        self._gradient = tf.function(
            self._loss_and_gradient,
            jit_compile=compile_gradient,
            autograph=False,
        )

    def compile_for_training(self):
        """Compiles with Adam, its values from the config (section 5.3)."""
        config = self.config
        optimizer = keras.optimizers.Adam(
            UpdateSchedule(
                kt.TransformerSchedule(
                    config.d_model,
                    config.warmup_steps,
                    config.learning_rate_scale,
                )
            ),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
        )
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=False)

    @property
    def metrics(self):
        """The token-weighted metrics, which fit resets."""
        return self.token_metrics.metrics

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Does nothing: weights and optimizer are built already.

        Keras would reduce a first batch over replicas, which fails when
        their shapes differ, and would use up the dataset's first elements.
        """

    def train_step(self, data):
        """Makes one update; returns the global batch's own figures."""
        inputs, labels = data
        replica = tf.distribute.get_replica_context()
        tokens = _count_tokens(labels)
        global_tokens = replica.all_reduce("SUM", tokens)
        sums, gradients = self._gradient(
            inputs, labels, global_tokens, _number_of(replica)
        )
        if self.config.clip_norm:
            gradients = self._clip(gradients, replica)
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.token_metrics.update(sums, tokens)
        sums = replica.all_reduce("SUM", sums)
        return {
            "loss": sums["loss"] / global_tokens,
            "perplexity": tf.exp(sums["perplexity"] / global_tokens),
            "accuracy": sums["accuracy"] / global_tokens,
            "tokens": global_tokens,
            "learning_rate": learning_rate,
        }

    def test_step(self, data):
        """Measures one batch without dropout."""
        inputs, labels = data
        sums = self._sums(labels, self(inputs, training=False))
        self.token_metrics.update(sums, _count_tokens(labels))
        return self.get_metrics_result()

    def _loss_and_gradient(self, inputs, labels, global_tokens, replica):
        with self.seeds.of(replica), tf.GradientTape() as tape:
            sums = self._sums(labels, self(inputs, training=True))
            loss = sums["loss"] / global_tokens
        gradients = tape.gradient(loss, self.trainable_variables)
        return sums, [tf.convert_to_tensor(each) for each in gradients]

    def _sums(self, labels, logits):
        losses = self.token_loss.token_losses(labels, logits)
        return {
            "loss": tf.reduce_sum(losses.smoothed),
            "perplexity": tf.reduce_sum(losses.plain),
            "accuracy": tf.reduce_sum(losses.correct),
        }

    def _clip(self, gradients, replica):
        gradients = replica.all_reduce("SUM", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm)
        # The optimizer sums over replicas once more.
        replicas = replica.num_replicas_in_sync
        return [gradient / replicas for gradient in gradients]


def _number_of(replica):
    # A tensor, so that replicas share one compiled function.
    return tf.convert_to_tensor(replica.replica_id_in_sync_group, tf.int32)


def _count_tokens(labels):
    return tf.reduce_sum(tf.cast(labels != PAD_ID, tf.float32))
