"""Runs the files of `save_onnx` with the signatures of an export.

It needs onnxruntime and SentencePiece, and neither Keras nor TensorFlow.
"""

import json
import os
import pathlib
import typing
from collections.abc import Mapping

import numpy as np

from export.common.errors import InputError
from export.common.processes import processor_count
from export.common.storage import explain_read_errors
from export.serving.export_directory import read_export_languages
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import NUM_THREADS, pad_ids
from export.translators.translation import (
    IMPOSSIBLE_SCORE,
    encode_texts,
)
from export.translators.word_spans import source_word_spans, target_word_spans

# The file of the search, with its description in the metadata.
MODEL_FILE = "translate.onnx"
VOCABULARY_FILE = "vocabulary.model"
DESCRIPTION = "translator"

_OUTPUTS = "tokens", "scores", "alignment", "token_log_probs"
_SIGNATURES = "serving_default", "n_best", "lengths"


def find_onnx(path: str | os.PathLike) -> pathlib.Path | None:
    """Returns the folder of `save_onnx` at a path, or at that of its file."""
    path = pathlib.Path(path)
    if path.name == MODEL_FILE:
        path = path.parent
    return path if (path / MODEL_FILE).is_file() else None


class OnnxSession:
    """An ONNX file with the interface of ServerSession; thread-safe.

    Args:
        path: a folder of `save_onnx`.
        num_threads: threads of one run; by default a share of the processors
            for each batch that a Translator runs at a time.

    Attributes:
        description: the settings of the export, a dict.
        languages: Languages of texts without tags.
        signatures: names of inputs, by the name of the signature: those of
            docs/serving.md that the file has outputs for.

    Raises InputError if a file is missing or damaged.
    """

    def __init__(self, path: pathlib.Path, num_threads: int | None = None):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads or max(
            processor_count() // NUM_THREADS, 1
        )
        # Warnings are for the authors of graphs.
        options.log_severity_level = 3
        file, vocabulary = path / MODEL_FILE, path / VOCABULARY_FILE
        with explain_read_errors(vocabulary):
            content = vocabulary.read_bytes()
        try:
            # Only a processor gives the same results everywhere.
            self._session = onnxruntime.InferenceSession(
                str(file), options, ["CPUExecutionProvider"]
            )
            metadata = self._session.get_modelmeta().custom_metadata_map
            self.description = json.loads(metadata[DESCRIPTION])
            self.languages = read_export_languages(self.description)
            self._limit = self.description["limits"]["max_source_tokens"]
            self._tokenizers = load_python_tokenizers(content)
        # onnxruntime's errors are subclasses of Exception alone.
        except Exception as error:
            message = str(error).strip().splitlines() or [repr(error)]
            raise InputError(
                f"{file} is not a file of export.onnx: {message[0]}"
            ) from error
        self._outputs = [each.name for each in self._session.get_outputs()]
        names = [*_SIGNATURES]
        if "alignment" in self._outputs:
            names.append("align")
        self.signatures = {name: ["text"] for name in names}

    @property
    def beam_size(self) -> int:
        """Number of translations of the signature `n_best`."""
        return self.description["limits"]["beam_size"]

    def run(
        self, signature: str, inputs: Mapping[str, typing.Any]
    ) -> dict[str, np.ndarray]:
        """Runs a signature, see ServerSession; text is str or bytes."""
        if signature not in self.signatures:
            raise InputError(
                f"The file has no signature {signature}; export the model with "
                "export.onnx --alignments."
            )
        texts = [
            each.decode("utf-8", "replace") if isinstance(each, bytes) else each
            for each in inputs["text"]
        ]
        sentences = encode_texts(
            self._tokenizers.source,
            [*map(self.languages.tag, texts)],
            self._limit,
        )
        truncated = [sentence.truncated for sentence in sentences]
        outputs = {"truncated": np.array(truncated, bool)}
        if signature == "lengths":
            return outputs | self._lengths(sentences, texts)
        found = self._search([sentence.ids for sentence in sentences])
        if signature == "align":
            return outputs | self._align(sentences, *found)
        tokens, scores = found[:2]
        if signature == "serving_default":
            translations = self._decode(tokens[:, 0])
            return outputs | {
                "translation": translations,
                "score": scores[:, 0],
            }
        translations = np.stack([*map(self._decode, tokens)])
        return outputs | {"translations": translations, "scores": scores}

    def _search(self, rows):
        """Returns the file's outputs for rows of ids, in the order of names."""
        source = pad_ids(rows).astype(np.int64)
        results = self._session.run(None, {"source": source})
        results = dict(zip(self._outputs, results))
        is_blank = np.array([len(row) == 1 for row in rows])
        # Blank texts are not translated, but the file has no empty batch.
        for name in results.keys() - {"scores"}:
            results[name][is_blank] = 0
        results["scores"][is_blank] = IMPOSSIBLE_SCORE
        results["scores"][is_blank, 0] = 0.0
        return [results[name] for name in _OUTPUTS if name in results]

    def _decode(self, rows):
        texts = self._tokenizers.target.decode(rows)
        return np.array([text.encode("utf-8") for text in texts], object)

    def _lengths(self, sentences, texts):
        limits = self.description["limits"]
        target_limit = limits["max_target_tokens"]
        targets = encode_texts(self._tokenizers.target, texts, target_limit)
        truncated = [target.truncated for target in targets]
        outputs = {"translation_truncated": np.array(truncated, bool)}
        for prefix, column, limit in (
            ("", sentences, self._limit),
            ("translation_", targets, target_limit),
        ):
            lengths = [each.length for each in column]
            outputs[f"{prefix}length"] = np.array(lengths, np.int32)
            outputs[f"{prefix}limit"] = np.full(len(texts), limit, np.int32)
        return outputs

    def _align(self, sentences, tokens, scores, alignment, log_probs):
        """Returns the outputs of the signature `align`."""
        source, target = self._tokenizers
        # Blank text has no tokens, not even the end.
        source_ids = [
            each.ids if each.length > 1 else each.ids[:0] for each in sentences
        ]
        target_ids = [np.trim_zeros(row, "b") for row in tokens[:, 0]]
        length = max(map(len, target_ids))
        alignment, log_probs = (
            alignment[:, 0, :length],
            log_probs[:, 0, :length],
        )
        return {
            "translation": self._decode(tokens[:, 0]),
            "score": scores[:, 0],
            "source_words": _pad(
                [
                    source_word_spans(source, each.text, ids)
                    for each, ids in zip(sentences, source_ids)
                ],
                np.int32(-1),
            ),
            "target_words": _pad(
                [target_word_spans(target, row) for row in target_ids],
                np.int32(-1),
            ),
            "source_tokens": _pad_tokens(source, source_ids),
            "target_tokens": _pad_tokens(target, target_ids),
            "alignment": alignment,
            "token_log_probs": log_probs,
        }


def _pad_tokens(tokenizer, rows):
    """Returns the tokens of rows of ids as bytes, padded with b""."""
    tokens = [
        np.array([tokenizer.id_to_token(int(i)).encode() for i in row], object)
        for row in rows
    ]
    return _pad(tokens, b"")


def _pad(rows, value):
    """Joins arrays to one, each padded at the end of its first axis."""
    width = max(map(len, rows))
    dtype = getattr(value, "dtype", object)
    padded = np.full((len(rows), width, *rows[0].shape[1:]), value, dtype)
    for target, row in zip(padded, rows):
        target[: len(row)] = row
    return padded
