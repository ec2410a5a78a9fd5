"""Files of events for TensorBoard, and what a model attends to in them."""

import contextlib
import re

import keras
import numpy as np
import tensorflow as tf
from PIL import ImageOps

from export.attention_views.reader import AttentionReader
from export.common.errors import InputError
from export.translators.translator import Translator
from trainers.pictures.attention_pictures import (
    KINDS,
    MOST_TOKENS,
    layer_picture,
    overview_picture,
)


class EventWriter:
    """Writes what tf.summary is told inside its blocks.

    Args:
        log_dir: pathlib.Path, TensorBoard's folder.
        run: name of the run that TensorBoard shows it as.

    Raises:
        InputError: the files cannot be written, here or in a block.
    """

    def __init__(self, log_dir, run):
        self._log_dir = log_dir
        with self._clear_errors():
            self._writer = tf.summary.create_file_writer(str(log_dir / run))

    @contextlib.contextmanager
    def at(self, step):
        """A block whose events are of a step, and on disk when it ends.

        The last event should be a scalar: that a large one found no room,
        TensorFlow tells only when it writes a small one.
        """
        with self._clear_errors(), self._writer.as_default(step):
            yield

    @contextlib.contextmanager
    def _clear_errors(self):
        try:
            yield
        except tf.errors.OpError as error:
            # Before and behind it stand names of TensorFlow's operations.
            reason = error.message.splitlines()[0].rpartition("}} ")[2]
            reason = reason.partition(" [Op:")[0]
            raise InputError(
                f"Cannot write {self._log_dir}: {reason}. Make room, then run "
                "the same command again."
            ) from error


# Of the longer side, in pieces: enough to see something, and few enough that
# two heads fit side by side.
_LENGTHS = (5, MOST_TOKENS // 2)


class AttentionSummaries(keras.callbacks.Callback):
    """Decodes the same sentences every N updates, and draws attention.

    Of the weights of the moment, with the model's own beam search. Written
    for TensorBoard, in the run `attention`:

    - `attention_KIND/layer_N` and `attention_KIND/all_heads`: pictures, KIND
      encoder, decoder or cross, a sample for each sentence,
    - `attention_entropy/KIND/layer_N/head_M`: nats, mean over the rows of
      all sentences,
    - `translations`: text.

    Training is not disturbed: no random number is drawn,
    no weight is touched.

    Args:
        counter: StepCounter.
        model: Transformer that is trained.
        tokenizer: Tokenizer.
        sources: list of str; nothing is written of none.
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
        self._writer = EventWriter(log_dir, "attention")

    def on_train_batch_end(self, batch, logs=None):
        """Writes when it is time."""
        due = self._counter.is_multiple_of(self._every)
        if self._sources and (due or self._counter.finished):
            found = self._reader.read(self._sources)
            with self._writer.at(self._counter.step):
                tf.summary.text("translations", self._tables(found))
                for kind in KINDS:
                    _write_pictures(found, kind)
                    _write_entropies(found, kind)

    def _tables(self, found):
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
        in length. None of blank sources.
    """
    longer = np.maximum(pairs.source_lengths, pairs.target_lengths)
    far = np.abs(longer - longer.clip(*_LENGTHS))
    # The end id alone is nothing to translate.
    possible = np.flatnonzero(pairs.source_lengths >= 2)
    good = possible[far[possible] == 0]
    if len(good) < count:
        nearest = possible[np.argsort(far[possible], kind="stable")]
        return np.sort(nearest[:count])
    return good[:: len(good) // count][:count]


def markdown_table(rows):
    """Returns a table of two columns, the first of them headings.

    Args:
        rows: sequence of pairs of str; shown as they are, whatever is in
            them.

    Returns:
        str, Markdown.
    """
    lines = [f"| {_plain(name)} | {_plain(text)} |" for name, text in rows]
    return "\n".join([lines[0], "|---|---|", *lines[1:]])


def _plain(text):
    """Writes punctuation as entities: none of it is Markdown or HTML."""
    text = " ".join(text.split())
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text)


def row_entropies(weights):
    """Returns the entropy of every row, in nats.

    0 where a query looks at one token alone, log M where it looks at M tokens
    alike.

    Args:
        weights: float [L, H, Q, M], rows that sum to 1.

    Returns:
        float64 [L, H, Q].
    """
    weights = weights.astype(np.float64)
    logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
    return -(weights * logarithms).sum(axis=-1)


def _write_entropies(found, kind):
    rows = [row_entropies(getattr(maps, kind)) for maps in found]
    means = np.concatenate(rows, axis=-1).mean(axis=-1)
    for (layer, head), mean in np.ndenumerate(means):
        name = f"{kind}/layer_{layer + 1}/head_{head + 1}"
        tf.summary.scalar(f"attention_entropy/{name}", mean)


def _write_pictures(found, kind):
    tag = f"attention_{kind}"
    _write_samples(
        f"{tag}/all_heads", [overview_picture(maps, kind) for maps in found]
    )
    for layer in range(1, len(getattr(found[0], kind)) + 1):
        _write_samples(
            f"{tag}/layer_{layer}",
            [layer_picture(maps, kind, layer) for maps in found],
        )


def _write_samples(tag, pictures):
    # Samples of a tag are of one size: white below those that are less high.
    height = max(picture.height for picture in pictures)
    samples = [
        ImageOps.expand(each, (0, 0, 0, height - each.height), "white")
        for each in pictures
    ]
    tf.summary.image(tag, np.stack(samples), max_outputs=len(samples))
