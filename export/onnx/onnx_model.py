"""The ONNX files of a translator: ids in, or text in, translations out."""

import json
import pathlib
import typing
from collections.abc import Sequence

import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.onnx.graph import BOOL, FLOAT, INT64, STRING, Graph
from export.onnx.onnx_session import DESCRIPTION
from export.onnx.search_graph import SearchGraph
from export.onnx.text_graph import detokenize, tokenize, validate_text_graph
from export.onnx.transformer_graph import TransformerGraph
from export.tokenizers.python_tokenizers import split_vocabulary
from export.translators.batches import length_limits
from export.translators.languages import Languages


class OnnxModel:
    """A Transformer and its vocabulary, to be written as ONNX files.

    The files have opset 17 and IR 8, of onnxruntime 1.13 and newer, and
    external data if they are above 100 MB.

    Args:
        model: the Transformer.
        vocabulary: the bytes of its `vocabulary.model`.
        languages: Languages of texts without tags.
        quantization: "int8", or None for float32.
        max_source_tokens: maximum number of ids of a source.
        target_pieces: ids of the tokens that translations may contain.
        align: whether the files have alignments.
        **search: see `TransformerConfig.with_search`.

    Raises InputError if a graph cannot represent the model.
    """

    def __init__(
        self,
        model: kt.Transformer,
        vocabulary: bytes,
        languages: Languages,
        quantization: str | None = None,
        max_source_tokens: int = 512,
        target_pieces: Sequence[int] | None = None,
        align: bool = False,
        **search: typing.Any,
    ):
        self._config = config = model.config.with_search(**search)
        _validate_config(config)
        self._protos = split_vocabulary(vocabulary)
        self._model, self._quantization = model, quantization
        self._align, self._languages = align, languages
        self._limits = length_limits(config, max_source_tokens)
        self._subset = None
        if target_pieces is not None:
            size = config.vocabulary_size
            self._subset = kt.OutputVocabulary.fixed(target_pieces, size)
        self._description = {
            "source_language": languages.source,
            "target_language": languages.target,
            "languages": languages.codes,
            "language_tags": languages.num_tags,
            "parameters": model.count_params(),
            "limits": {
                "beam_size": config.beam_size,
                "alpha": config.alpha,
                "stop_criterion": config.stop_criterion,
                "max_source_tokens": self._limits[0],
                "max_target_tokens": self._limits[1],
                "max_extra_tokens": config.max_extra_tokens,
                "target_pieces": target_pieces and len(target_pieces),
                "quantization": quantization,
            },
        }

    def write_search(self, path: pathlib.Path) -> None:
        """Writes a file from ids to ids.

        Its input `source` is int64 [B, S], ids that end with the end id, then
        padding. Its outputs are `tokens`, int64 [B, K, T], and `scores`,
        float32 [B, K], best first; with `align` also `alignment`, float32
        [B, K, T, S], and `token_log_probs`, float32 [B, K, T].
        """
        graph = Graph()
        outputs = self._search(graph, graph.input("source"), self._align)
        shape = ["batch", self._config.beam_size, "target"]
        infos = {
            "tokens": (INT64, shape),
            "scores": (FLOAT, shape[:2]),
            "alignment": (FLOAT, [*shape, "source"]),
            "token_log_probs": (FLOAT, shape),
        }
        graph.save(
            path,
            {"source": (INT64, ["batch", "source"])},
            {name: (value, infos[name]) for name, value in outputs.items()},
            {DESCRIPTION: json.dumps(self._description)},
        )

    def write_text(self, path: pathlib.Path) -> None:
        """Writes a file from `text` to `translation`, both string [1].

        It has the outputs `score`, float32 [1], and `truncated`, bool [1], too,
        and needs the operators of onnxruntime-extensions. Texts in capitals are
        translated as they are, without the marks of `letter_case`.

        Raises InputError for sources with tags of several languages.
        """
        validate_text_graph(self._languages)
        graph = Graph()
        source_proto, target_proto = self._protos
        ids, truncated = tokenize(
            graph, graph.input("text"), source_proto, self._limits[0]
        )
        outputs = self._search(graph, ids, align=False)
        translation = detokenize(graph, outputs["tokens"], target_proto)
        graph.save(
            path,
            {"text": (STRING, [1])},
            {
                "translation": (translation, (STRING, [1])),
                "score": (outputs["scores"][:, 0], (FLOAT, [1])),
                "truncated": (truncated, (BOOL, [1])),
            },
            {DESCRIPTION: json.dumps(self._description)},
        )

    def _search(self, graph, source, align):
        """Returns the outputs of a SearchGraph, with ids of the vocabulary."""
        transformer = TransformerGraph(
            graph, self._model, self._quantization, self._subset
        )
        has_language = self._languages.num_tags == 2
        outputs = SearchGraph(
            transformer, self._config, source, int(has_language), align
        ).search()
        if self._subset is not None:
            ids = self._subset.ids.astype(np.int64)
            outputs["tokens"] = graph.op("Gather", ids, outputs["tokens"])
        return outputs


def _validate_config(config):
    """Raises InputError if a graph cannot represent the model."""
    for name, advice in (
        ("attention_window", "use export.saved_model"),
        ("retry_ngram_size", "give --retry_ngram_size=0"),
    ):
        if value := getattr(config, name):
            raise InputError(f"ONNX files have no {name}={value}: {advice}.")
    if config.uses_word_positions:
        raise InputError(
            f"ONNX files have no positions={config.positions}, those of a "
            "parser: use export.saved_model."
        )
