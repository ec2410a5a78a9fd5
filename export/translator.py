"""Translates text with a trained model."""

import numpy as np
import tensorflow as tf

from export.batches import BATCH_TOKENS, in_batches
from export.id_translator import IdTranslator, pieces_of, trim
from export.limits import source_limit
from export.model_directory import ModelDirectory
from export.text_translator import Sentence, TextTranslator
from export.translation import IMPOSSIBLE, Translation
from keras_transformer.special_ids import END_ID

__all__ = ["Translation", "Translator"]

# Sources are cut to this many ids, the end id counted.
MAX_SOURCE_TOKENS = 512

_IDS = tf.TensorSpec([None, None], tf.int32)


class Translator(TextTranslator):
    """Beam search over lists of text, with a model in this process.

    Args:
        model: Transformer.
        tokenizer: Tokenizer of its vocabulary.
        batch_tokens: source positions in a batch, padding counted.
        **search: of IdTranslator: beam_size, alpha, max_extra, min_length.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(self, model, tokenizer, batch_tokens=BATCH_TOKENS, **search):
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        ids = IdTranslator(model, **search)
        self.beam_size = ids.config.beam_size
        self._config = ids.config
        # One graph for every shape: XLA would compile each padded length,
        # some ten seconds apiece.
        self._encode = _graph(ids.encode, _IDS)
        self._best = _graph(ids.best, _IDS, ids.memory_spec)
        self._search = _graph(ids.search, _IDS, ids.memory_spec)
        self._align = _graph(ids.align, _IDS, _IDS, ids.memory_spec)
        self._score = _graph(ids.score, _IDS, _IDS)

    @classmethod
    def from_directory(cls, path, **settings):
        """Returns the translator of a model directory.

        Args:
            path: of the model directory.
            **settings: `batch_tokens` and what IdTranslator takes.

        Raises:
            InputError: it is not a whole model directory.
        """
        directory = ModelDirectory(path)
        return cls(
            directory.load_model(), directory.load_tokenizer(), **settings
        )

    def score(self, texts, translations):
        """Scores given translations.

        Args:
            texts: list of str, a sentence each.
            translations: list of str, as many.

        Returns:
            A list of float: log-probability of each translation, not divided
            by a length penalty. A source is cut as when it is translated,
            and a translation to the longest that a source could have. Where
            the source is blank it is 0 for a blank translation, else -1e9.
        """
        sources = self._sentences(list(texts))
        limit = self._source_limit() + self._config.max_output_extra
        limit = source_limit(self._config, limit)
        targets = [
            _cut(ids, limit)
            for ids in self.tokenizer.encode(list(translations))
        ]

        def ask(batch):
            return self._score(
                _padded([sources[number].ids for number in batch]),
                _padded([targets[number] for number in batch]),
            ).numpy()

        lengths = [
            max(source.length, len(target)) if source.length > 1 else 1
            for source, target in zip(sources, targets, strict=True)
        ]
        answers = in_batches(lengths, self.batch_tokens, ask)
        return [
            _score_of_blank(target) if answer is None else float(answer)
            for answer, target in zip(answers, targets)
        ]

    def _source_limit(self):
        return source_limit(self._config, MAX_SOURCE_TOKENS)

    def _sentences(self, texts):
        limit = self._source_limit()
        sentences = []
        for text, ids in zip(texts, self.tokenizer.encode(texts)):
            kept = _cut(ids, limit)
            is_cut = len(ids) > limit
            sentences.append(Sentence(text, kept, len(kept), is_cut))
        return sentences

    def _search_texts(self, sentences, n):
        source = _padded([sentence.ids for sentence in sentences])
        search = self._best if n == 1 else self._search
        tokens, scores = search(source, self._encode(source))
        tokens, scores = tokens[:, :n].numpy(), scores[:, :n].numpy()
        texts = self.tokenizer.decode(tokens.reshape(-1, tokens.shape[2]))
        rows = range(0, len(texts), n)
        return [texts[row : row + n] for row in rows], scores.tolist()

    def _align_texts(self, sentences):
        source = _padded([sentence.ids for sentence in sentences])
        memory = self._encode(source)
        tokens, scores = self._best(source, memory)
        tokens = trim(tokens[:, 0])
        return zip(
            self.tokenizer.decode(tokens),
            scores[:, 0].numpy().tolist(),
            self._pieces(source),
            self._pieces(tokens),
            self._align(source, tokens, memory).numpy(),
        )

    def _pieces(self, ids):
        pieces = pieces_of(self.tokenizer, ids).numpy().tolist()
        return [[piece.decode("utf-8") for piece in row] for row in pieces]


def _graph(function, *signature):
    return tf.function(function, input_signature=signature, autograph=False)


def _padded(rows):
    matrix = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, ids in zip(matrix, rows):
        row[: len(ids)] = ids
    return tf.constant(matrix)


def _cut(ids, limit):
    if len(ids) <= limit:
        return ids
    return np.append(ids[: limit - 1], END_ID).astype(np.int32)


def _score_of_blank(target):
    return 0.0 if len(target) == 1 else IMPOSSIBLE
