"""Translation data sets of TensorFlow Datasets (TFDS), in any direction."""

import contextlib
import os
import textwrap

import tensorflow as tf
import tensorflow_datasets as tfds

from export.common.errors import InputError
from trainers.data.corpus import (
    Corpus,
    file_fingerprint,
    resolve_languages,
    text_fingerprint,
)

_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_BATCH_SIZE = 1024


class TfdsCorpus(Corpus):
    """A TFDS translation data set, downloaded and prepared if needed.

    The TFDS split "validation" becomes "dev". With
    `tfds.features.Translation`, each example is a pair; with
    `TranslationVariableLanguages`, each sentence in the source language is a
    source, and all sentences in the target language are its references.

    The data set's supervised keys give the default direction. For `data_dir`
    (by default ~/tensorflow_datasets) and `manual_dir` see TFDS.
    """

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
        data_dir: str | os.PathLike | None,
        manual_dir: str | os.PathLike | None,
    ):
        # Network, disk, archives and third-party code may raise anything.
        with _convert_errors(
            f"TensorFlow Datasets cannot open {dataset!r}",
            "give one of its translation sets, such as wmt14_translate/de-en",
        ):
            builder = tfds.builder(dataset, data_dir=data_dir)
        info = builder.info
        self._builder = builder
        self._field, self._feature = _find_translation(dataset, info.features)
        available = self._feature.languages
        default = info.supervised_keys
        if not default or not set(default) <= set(available):
            default = None
        languages = resolve_languages(
            dataset, available, source_language, target_language, default
        )
        super().__init__(dataset, *languages)
        with _convert_errors(
            f"TensorFlow Datasets cannot prepare {dataset}",
            "check the network, or give --data_dir with the prepared data or "
            "--manual_dir with its files",
        ):
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(
                    manual_dir=manual_dir
                )
            )
        self._splits = {
            split: name
            for split, name in _TFDS_SPLITS.items()
            if name in info.splits
        }
        if not self._splits:
            raise InputError(
                f"Expected a split {', '.join(_TFDS_SPLITS.values())} in "
                f"{dataset}; it has {', '.join(info.splits)}."
            )

    def fingerprint(self) -> str:
        """Returns a hash of prepared data and direction, as 16 hex digits."""
        info = self._builder.info
        files = file_fingerprint(
            path
            for name in self._splits.values()
            for path in info.splits[name].filepaths
        )
        return text_fingerprint(
            info.full_name, self.source_language, self.target_language, files
        )

    def _rows(self, split):
        data = self._builder.as_dataset(
            split=self._splits[split],
            shuffle_files=False,
            # File by file: the same order on every machine.
            read_config=tfds.ReadConfig(
                interleave_cycle_length=1, try_autocache=False
            ),
        )
        if self._field is not None:
            data = data.map(lambda example: example[self._field])
        is_pair = isinstance(self._feature, tfds.features.Translation)
        read_rows = self._pair_rows if is_pair else self._multilingual_rows
        with _convert_errors(
            f"The {split} split of {self.name} cannot be read",
            "delete its files, so that it is prepared again",
            (tf.errors.OpError, UnicodeDecodeError),
        ):
            yield from read_rows(data)

    def _pair_rows(self, data):
        # Batches reach Python several times as fast as examples.
        for batch in data.batch(_BATCH_SIZE).prefetch(1).as_numpy_iterator():
            sources = batch[self.source_language]
            targets = batch[self.target_language]
            for source, target in zip(sources, targets, strict=True):
                yield source.decode("utf-8"), (target.decode("utf-8"),)

    def _multilingual_rows(self, data):
        for example in data.prefetch(1).as_numpy_iterator():
            texts = {self.source_language: [], self.target_language: []}
            for language, text in zip(
                example["language"], example["translation"], strict=True
            ):
                if language.decode("utf-8") in texts:
                    texts[language.decode("utf-8")].append(text.decode("utf-8"))
            # Most examples lack one of the two languages.
            if texts[self.target_language]:
                for source in texts[self.source_language]:
                    yield source, tuple(texts[self.target_language])


def _find_translation(dataset, features):
    """Returns (field, feature); the field None means the whole example."""
    translation_types = (
        tfds.features.Translation,
        tfds.features.TranslationVariableLanguages,
    )
    candidates = {None: features}
    if isinstance(features, tfds.features.FeaturesDict):
        candidates |= dict(features.items())
    for field, feature in candidates.items():
        if isinstance(feature, translation_types) and feature.languages:
            return field, feature
    raise InputError(
        f"{dataset} is not a translation data set: none of its features "
        "names its languages; choose one such as wmt14_translate/de-en."
    )


@contextlib.contextmanager
def _convert_errors(problem, action, errors=Exception):
    """Converts errors to an InputError of one line."""
    try:
        yield
    except errors as error:
        text = f"{type(error).__name__}: {error}"
        text = textwrap.shorten(text, 300, placeholder="…")
        raise InputError(f"{problem} ({text}); {action}.") from error
