"""Shows TensorBoard what a model attends to while it is trained."""

import contextlib
import re

import keras
import numpy as np
import tensorflow as tf

from export.attention_views.reader import AttentionReader
from export.errors import InputError
from export.translators.translator import Translator
from trainers.batches.token_pairs import texts_of
from trainers.pictures.attention_pictures import (
    KINDS,
    MOST_TOKENS,
    layer_picture,
    overview_picture,
)
from trainers.pictures.png import encode_png


def attention_entropy(weights):
    """Returns the mean entropy of every head's rows, in nats.

    0 where a head looks at one token alone, log M where it looks at M tokens
    alike.

    Args:
        weights: float [L, H, Q, M], rows that sum to 1.

    Returns:
        float64 [L, H].
    """
    weights = weights.astype(np.float64)
    logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
    return -(weights * logarithms).sum(axis=-1).mean(axis=-1)


def markdown_table(rows):
    """Returns a table of two columns, the first of them headings.

    Args:
        rows: sequence of pairs of str; shown as they are, whatever is in
            them.

    Returns:
        str, Markdown.
    """
    (first, *others) = [" | ".join(map(_plain, row)) for row in rows]
    return "\n".join(
        [f"| {first} |", "|---|---|"] + [f"| {line} |" for line in others]
    )


def _plain(text):
    """Writes punctuation as entities: none of it is Markdown or HTML."""
    text = " ".join(text.split())
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text)


@contextlib.contextmanager
def log_writing(log_dir):
    """A block in which a full disk is a clear error.

    Args:
        log_dir: where TensorBoard's files go.

    Raises:
        InputError: they cannot be written.
    """
    try:
        yield
    except tf.errors.OpError as error:
        reason = " ".join(error.message.split())
        raise InputError(
            f"Cannot write {log_dir}: {reason}. Make room, then run the same "
            "command again."
        ) from error


# Of the longer side, in pieces: enough to see something, and few enough that
# two heads fit side by side.
_LENGTHS = (5, MOST_TOKENS // 2)

# So TensorBoard knows what a tensor of width, height and files is.
_IMAGES = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="images")
)


class AttentionSummaries(keras.callbacks.Callback):
    """Decodes the same sentences every so many updates, and draws attention.

    Of the weights of the moment, with the model's own beam search. Written
    for TensorBoard, in the run `attention`:

    - `attention_KIND/layer_N` and `attention_KIND/all_heads`: pictures, KIND
      encoder, decoder or cross, a sample for each sentence,
    - `attention_entropy/KIND/layer_N/head_M`: nats, mean over the rows of
      all sentences,
    - `translations`: text.

    Training goes on as if nothing had happened: no random number is drawn,
    no weight is touched.

    Args:
        counter: StepCounter.
        model: Transformer that is trained.
        tokenizer: Tokenizer.
        sources: list of str.
        references: list of str, shown beside the translations.
        log_dir: TensorBoard's folder.
        every: updates between pictures; the last update is shown as well.

    Raises:
        InputError: TensorBoard's files cannot be written.
    """

    def __init__(
        self, counter, model, tokenizer, sources, references, log_dir, every
    ):
        super().__init__()
        self._counter = counter
        self._reader = AttentionReader(Translator(model, tokenizer))
        self._sources = sources
        self._references = references
        self._every = every
        self._log_dir = log_dir / "attention"
        with log_writing(self._log_dir):
            self._writer = tf.summary.create_file_writer(str(self._log_dir))

    @classmethod
    def of_dev(cls, counter, model, tokenizer, pairs, sentences, *rest):
        """Returns the callback for sentences of the dev split.

        Args:
            counter: StepCounter.
            model: as for the class.
            tokenizer: as for the class.
            pairs: TokenPairs of the dev split.
            sentences: how many, from all over the split.
            *rest: `log_dir` and `every`.
        """
        numbers = choose_sentences(pairs, sentences)
        texts = texts_of(tokenizer, pairs, numbers)
        return cls(counter, model, tokenizer, *texts, *rest)

    def on_train_batch_end(self, batch, logs=None):
        """Writes when it is time."""
        if self._counter.finished or self._counter.is_multiple_of(self._every):
            self._write()

    def _write(self):
        # A dev split may have nothing but blank sentences.
        if not self._sources:
            return
        found = self._reader.read(self._sources)
        step = self._counter.step
        with (
            log_writing(self._log_dir),
            self._writer.as_default(step=step),
        ):
            tf.summary.text("translations", self._tables(found))
            for kind in KINDS:
                _write_pictures(found, kind)
                _write_entropies(found, kind)
            self._writer.flush()

    def _tables(self, found):
        """Returns a table for each sentence, the tokens in it as well."""
        return [
            markdown_table(
                [
                    ("source", maps.text),
                    ("its tokens", " ".join(maps.source_tokens)),
                    ("translation", maps.translation),
                    ("its tokens", " ".join(maps.target_tokens)),
                    ("reference", reference),
                ]
            )
            for maps, reference in zip(found, self._references)
        ]


def choose_sentences(pairs, count):
    """Chooses sentences that can be drawn well, the same ones every time.

    Args:
        pairs: TokenPairs.
        count: how many at most.

    Returns:
        int [N], numbers of pairs, evenly spread over those of 5 to 12 pieces
        on the longer side; where there are not enough of them, the nearest
        in length.
    """
    longer = np.maximum(pairs.source_lengths, pairs.target_lengths)
    shortest, longest = _LENGTHS
    far = np.maximum(shortest - longer, longer - longest).clip(0)
    # The end id alone is nothing to translate.
    far[pairs.source_lengths < 2] = np.iinfo(far.dtype).max
    possible = np.flatnonzero(pairs.source_lengths >= 2)
    good = np.flatnonzero(far == 0)
    if len(good) < count:
        nearest = possible[np.argsort(far[possible], kind="stable")]
        return np.sort(nearest[:count])
    return good[:: len(good) // count][:count]


def _write_pictures(found, kind):
    layers = len(getattr(found[0], kind))
    pictures = {"all_heads": [overview_picture(maps, kind) for maps in found]}
    for layer in range(1, layers + 1):
        pictures[f"layer_{layer}"] = [
            layer_picture(maps, kind, layer) for maps in found
        ]
    for name, samples in pictures.items():
        width, height = samples[0].size
        tf.summary.write(
            f"attention_{kind}/{name}",
            [str(width), str(height), *map(encode_png, samples)],
            metadata=_IMAGES,
        )


def _write_entropies(found, kind):
    rows = [len(maps.target_tokens) for maps in found]
    if kind == "encoder":
        rows = [len(maps.source_tokens) for maps in found]
    entropies = np.average(
        [attention_entropy(getattr(maps, kind)) for maps in found],
        axis=0,
        weights=rows,
    )
    for (layer, head), entropy in np.ndenumerate(entropies):
        tf.summary.scalar(
            f"attention_entropy/{kind}/layer_{layer + 1}/head_{head + 1}",
            entropy,
        )
