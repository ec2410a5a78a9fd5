"""Translation data sets of TensorFlow Datasets (TFDS), in any direction."""

import contextlib
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

_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_BATCH = 1024


class TfdsCorpus(Corpus):
    """A TFDS translation data set, downloaded and prepared if needed.

    The TFDS split "validation" becomes "dev". With
    `tfds.features.Translation`, each example is a pair; with
    `TranslationVariableLanguages`, each sentence in the source language is a
    source, and all sentences in the target language are its references.

    The default direction is that of the data set's supervised keys. `data_dir`
    (by default ~/tensorflow_datasets) and `manual_dir` are those of TFDS.
    """

    def __init__(
        self, dataset, source_language, target_language, data_dir, manual_dir
    ):
        # Network, disk, archives and third-party code may raise anything.
        with _one_sentence(
            f"TensorFlow Datasets cannot open {dataset!r}",
            "give one of its translation sets, such as wmt14_translate/de-en",
        ):
            builder = tfds.builder(dataset, data_dir=data_dir)
        self._builder = builder
        self._field, self._feature = _find_translation(
            dataset, builder.info.features
        )
        known = self._feature.languages
        default = builder.info.supervised_keys
        if not default or not set(default) <= set(known):
            default = None
        languages = resolve_languages(
            dataset, known, source_language, target_language, default
        )
        super().__init__(dataset, *languages)
        with _one_sentence(
            f"TensorFlow Datasets cannot prepare {dataset}",
            "check the network, or give --data_dir with the prepared data or "
            "--manual_dir with its files",
        ):
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(
                    manual_dir=manual_dir
                )
            )
        names = builder.info.splits
        self._splits = {
            split: name for split, name in _SPLITS.items() if name in names
        }
        if not self._splits:
            raise InputError(
                f"{dataset} has none of the splits "
                f"{', '.join(_SPLITS.values())}; "
                f"it has: {', '.join(builder.info.splits)}."
            )

    def fingerprint(self):
        """Returns a hash of prepared data and direction, as 16 hex digits."""
        info = self._builder.info
        return text_fingerprint(
            info.full_name,
            self.source_language,
            self.target_language,
            file_fingerprint(
                path
                for name in self._splits.values()
                for path in info.splits[name].filepaths
            ),
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
        is_fixed = isinstance(self._feature, tfds.features.Translation)
        read = self._fixed_rows if is_fixed else self._variable_rows
        with _one_sentence(
            f"The {split} split of {self.name} cannot be read",
            "delete it and have it prepared again",
            (tf.errors.OpError, UnicodeDecodeError),
        ):
            yield from read(data)

    def _fixed_rows(self, data):
        # TensorFlow passes batches to Python several times as fast.
        for batch in data.batch(_BATCH).prefetch(1).as_numpy_iterator():
            sources = batch[self.source_language]
            targets = batch[self.target_language]
            for source, target in zip(sources, targets, strict=True):
                yield source.decode("utf-8"), (target.decode("utf-8"),)

    def _variable_rows(self, data):
        for example in data.prefetch(1).as_numpy_iterator():
            sentences = {}
            for language, text in zip(
                example["language"], example["translation"], strict=True
            ):
                same = sentences.setdefault(language.decode("utf-8"), [])
                same.append(text.decode("utf-8"))
            references = tuple(sentences.get(self.target_language, ()))
            # Most examples lack one of the two languages.
            if references:
                for source in sentences.get(self.source_language, ()):
                    yield source, references


def _find_translation(dataset, features):
    """Returns (name, feature); name None means the whole example."""
    kinds = (
        tfds.features.Translation,
        tfds.features.TranslationVariableLanguages,
    )
    candidates = {None: features}
    if isinstance(features, tfds.features.FeaturesDict):
        candidates |= dict(features.items())
    for field, feature in candidates.items():
        if isinstance(feature, kinds) and feature.languages:
            return field, feature
    raise InputError(
        f"{dataset} is not a translation data set: none of its features "
        "names its languages; choose one such as wmt14_translate/de-en."
    )


@contextlib.contextmanager
def _one_sentence(problem, action, errors=Exception):
    """Converts errors to an InputError of one line."""
    try:
        yield
    except errors as error:
        text = f"{type(error).__name__}: {error}"
        text = textwrap.shorten(text, 300, placeholder="…")
        raise InputError(f"{problem} ({text}); {action}.") from error
