"""Translation data sets of TensorFlow Datasets (TFDS), in any direction."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from export.errors import InputError
from trainers.corpora.corpus import (
    Row,
    RowCorpus,
    file_fingerprint,
    resolve_languages,
    text_fingerprint,
)

_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_BATCH = 1024


class TfdsCorpus(RowCorpus):
    """A TFDS set whose examples hold translations, prepared where needed.

    Its split "validation" is our "dev". With `tfds.features.Translation`
    each example is a pair; with `TranslationVariableLanguages` each sentence
    in the source language is a source, and all in the target language are
    its references.

    Args:
        dataset: TFDS name, such as "wmt14_translate/de-en".
        source_language: by default, with `target_language`, the direction
            the data set itself has (its supervised keys).
        target_language: see `source_language`.
        data_dir: where TFDS keeps data; by default ~/tensorflow_datasets.
        manual_dir: where files lie that TFDS cannot download by itself.

    Raises:
        InputError: TFDS is not installed, has no such data set, or cannot
            prepare it; it is not one of translations; or it has not these
            languages.
    """

    def __init__(
        self,
        dataset: str,
        source_language: str | None = None,
        target_language: str | None = None,
        data_dir: str | None = None,
        manual_dir: str | None = None,
    ) -> None:
        self._tfds = _import_tfds(dataset)
        self._builder = _find_builder(self._tfds, dataset, data_dir)
        info = self._builder.info
        self._field, self._feature = _find_translation(
            self._tfds, dataset, info.features
        )
        super().__init__(
            dataset,
            *resolve_languages(
                dataset,
                self._feature.languages,
                source_language,
                target_language,
                _own_direction(info, self._feature.languages),
            ),
        )
        _prepare(self._tfds, self._builder, dataset, manual_dir)
        if not self.splits():
            raise InputError(
                f"{dataset} has none of the splits {', '.join(_SPLITS)}; "
                f"it has: {', '.join(info.splits)}."
            )

    def splits(self) -> tuple[str, ...]:
        """See the base class."""
        there = self._builder.info.splits
        return tuple(
            ours for ours, theirs in _SPLITS.items() if theirs in there
        )

    def fingerprint(self) -> str:
        """Returns 16 hex digits for the prepared data and the direction.

        Covers name, configuration and version, the two languages, and the
        record files of the splits as `file_fingerprint` does.
        """
        info = self._builder.info
        return text_fingerprint(
            info.full_name,
            self.source_language,
            self.target_language,
            file_fingerprint(
                path
                for split in self.splits()
                for path in info.splits[_SPLITS[split]].filepaths
            ),
        )

    def _rows(self, split: str) -> Iterator[Row]:
        import tensorflow as tf

        data = self._builder.as_dataset(
            split=_SPLITS[split],
            shuffle_files=False,
            # One file after the other: the same order on every machine.
            read_config=self._tfds.ReadConfig(
                interleave_cycle_length=1, try_autocache=False
            ),
        )
        if self._field is not None:
            data = data.map(lambda example: example[self._field])
        try:
            if isinstance(self._feature, self._tfds.features.Translation):
                yield from self._fixed_rows(data)
            else:
                yield from self._variable_rows(data)
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            raise InputError(
                f"The {split} split of {self.name} cannot be read "
                f"({_one_line(error)}); delete it and have it prepared anew."
            ) from error

    def _fixed_rows(self, data: Any) -> Iterator[Row]:
        # Whole batches cross from TensorFlow to Python several times as fast.
        for batch in data.batch(_BATCH).prefetch(1).as_numpy_iterator():
            sources = batch[self.source_language]
            targets = batch[self.target_language]
            for source, target in zip(sources, targets, strict=True):
                yield source.decode("utf-8"), (target.decode("utf-8"),)

    def _variable_rows(self, data: Any) -> Iterator[Row]:
        for example in data.prefetch(1).as_numpy_iterator():
            sentences: dict[str, list[str]] = {}
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


def _import_tfds(dataset: str) -> Any:
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise InputError(
            f"{dataset} comes through TensorFlow Datasets, which cannot be "
            f"imported ({_one_line(error)}); install tensorflow-datasets."
        ) from error
    return tensorflow_datasets


def _find_builder(tfds: Any, dataset: str, data_dir: str | None) -> Any:
    try:
        return tfds.builder(dataset, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        raise InputError(
            f"TensorFlow Datasets has no {dataset!r}; {_known(tfds)}"
        ) from error
    # Builders are other people's code, and raise what they like.
    except Exception as error:
        configurations = _configurations(tfds, dataset)
        raise InputError(
            f"TensorFlow Datasets cannot open {dataset!r} "
            f"({_one_line(error)}){configurations}."
        ) from error


def _known(tfds: Any) -> str:
    names = [name for name in tfds.list_builders() if "translate" in name]
    return f"its translation sets are, among others: {', '.join(names)}."


def _configurations(tfds: Any, dataset: str) -> str:
    try:
        builder = tfds.builder_cls(re.split("[/:]", dataset)[0])
    except (ValueError, ImportError):
        return ""
    names = [configuration.name for configuration in builder.BUILDER_CONFIGS]
    return f"; its configurations are: {', '.join(names)}" if names else ""


def _find_translation(
    tfds: Any, dataset: str, features: Any
) -> tuple[str | None, Any]:
    """Returns (name, feature) of the translations in an example.

    The name is None where the whole example is the translation.
    """
    kinds = (
        tfds.features.Translation,
        tfds.features.TranslationVariableLanguages,
    )
    candidates: dict[str | None, Any] = {None: features}
    if isinstance(features, tfds.features.FeaturesDict):
        candidates |= dict(features.items())
    for field, feature in candidates.items():
        if isinstance(feature, kinds) and feature.languages:
            return field, feature
    raise InputError(
        f"{dataset} is not a translation data set: none of its features "
        "names its languages; choose one such as wmt14_translate/de-en."
    )


def _own_direction(
    info: Any, languages: Sequence[str]
) -> tuple[str, str] | None:
    keys = info.supervised_keys
    return keys if keys and set(keys) <= set(languages) else None


def _prepare(
    tfds: Any, builder: Any, dataset: str, manual_dir: str | None
) -> None:
    configuration = tfds.download.DownloadConfig(manual_dir=manual_dir)
    try:
        builder.download_and_prepare(download_config=configuration)
    # Network, disk, archives, other people's code: anything may come up.
    except Exception as error:
        raise InputError(
            f"TensorFlow Datasets cannot prepare {dataset} "
            f"({_one_line(error)}); check the network, or give --data_dir "
            "with the prepared data or --manual_dir with its files."
        ) from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"
