"""Translates, samples and scores text with models of this process."""

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.translators.batches import (
    BATCH_TOKENS,
    NUM_THREADS,
    IdPair,
    UnknownCharacter,
    pad_ids,
    truncation_limit,
    validate_texts,
)
from export.translators.graph_translator import (
    IDS_SPEC,
    GraphTranslator,
    TracedSearch,
    trace_once,
)
from export.translators.text_ops import (
    encode_texts,
    source_word_spans,
    target_word_spans,
)
from export.translators.text_translator import (
    IMPOSSIBLE_SCORE,
    Sentence,
    TextTranslator,
    Translation,
    drop_impossible,
    fill_blanks,
    word_alignment,
)
from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID

MAX_SOURCE_TOKENS = 512


class ModelTranslator(TextTranslator):
    """A TextTranslator that tokenizes text itself.

    Args:
        tokenizer: Tokenizer of the vocabulary, or TokenizerPair.
        config: TransformerConfig with the search's settings.
        max_source_tokens: maximum number of ids of a source, the end id
            included, at most the learned positions; 512 by default.
    """

    def __init__(self, tokenizer, config, max_source_tokens=None):
        self.tokenizer = tokenizer
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self.beam_size = config.beam_size
        self._config = config

    @property
    def source_limit(self):
        """Maximum number of ids of a source, the end id included."""
        return truncation_limit(self._config, self.max_source_tokens)

    @property
    def target_limit(self):
        """Maximum number of ids of a translation, the end id included."""
        longest = self.source_limit + self._config.max_extra_tokens
        return truncation_limit(self._config, longest)

    def normalize_prefixes(self, prefixes, keep_long=True):
        r"""Returns prefixes in the spelling of translations, a list of str.

        Such as "fi" for "\ufb01", with single spaces and none at the ends. A
        prefix above the maximum length of a translation is unchanged, or
        truncated if not `keep_long`. Raises UnknownCharacter if the vocabulary
        lacks a character.
        """
        rows = self._encode_prefixes(prefixes)
        if not rows:
            return []
        texts = self.tokenizer.target.decode(pad_ids([ids for ids, _ in rows]))
        return [
            prefix if truncated and keep_long else text
            for prefix, text, (_, truncated) in zip(prefixes, texts, rows)
        ]

    def _sentences(self, texts):
        rows = encode_texts(self.tokenizer.source, texts, self.source_limit)
        return [
            Sentence(text, ids, len(ids), truncated)
            for text, (ids, truncated) in zip(texts, rows)
        ]

    def _prefix_ids(self, prefixes):
        return [ids for ids, _ in self._encode_prefixes(prefixes)]

    def _encode_prefixes(self, prefixes):
        """Returns pairs: ids without the end id, and whether truncated."""
        tokenizer = self.tokenizer.target
        prefixes = validate_texts(prefixes, "prefixes")
        rows = encode_texts(tokenizer, prefixes, self.target_limit)
        for index, (ids, _) in enumerate(rows):
            if UNKNOWN_ID in ids:
                character = _first_unknown(tokenizer, prefixes[index])
                raise UnknownCharacter(index, character)
        return [(ids[:-1], truncated) for ids, truncated in rows]

    def _decode(self, tokens):
        """Returns the texts of int32 [B, N, T], B lists of N str."""
        rows, n, length = tokens.shape
        tokens = np.asarray(tokens).reshape(rows * n, length)
        texts = self.tokenizer.target.decode(tokens)
        return [texts[row * n : (row + 1) * n] for row in range(rows)]


class Translator(ModelTranslator):
    """Beam search, sampling and scoring of texts.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary, or TokenizerPair.
        batch_tokens, num_threads: see TextTranslator; 1 thread if other
            processes use the other CPUs.
        max_source_tokens: see ModelTranslator.
        compiled: whether XLA compiles the search, for single sentences at the
            lowest latency in a long-running process; see TracedSearch.
        **search: arguments of GraphTranslator.

    The attribute `target_pieces` has the ids that translations may contain,
    None for all. Raises ValueError if a number is out of range.
    """

    def __init__(
        self,
        model,
        tokenizer,
        batch_tokens=BATCH_TOKENS,
        max_source_tokens=None,
        compiled=False,
        num_threads=NUM_THREADS,
        **search,
    ):
        self.model = model
        self.batch_tokens = 1 if compiled else batch_tokens
        self.num_threads = num_threads
        self._ids = GraphTranslator(model, **search)
        super().__init__(tokenizer, self._ids.config, max_source_tokens)
        self.target_pieces = self._ids.target_pieces
        limits = (self.source_limit, self.target_limit) if compiled else None
        self._graphs = TracedSearch(self._ids, limits)
        self._score = trace_once(self._ids.score, IDS_SPEC, IDS_SPEC)
        self._samplers = {}

    @classmethod
    def from_directory(cls, path, **settings):
        """Returns the Translator of a model directory, with these arguments."""
        directory = ModelDirectory(path)
        return cls(
            directory.load_model(), directory.load_tokenizer(), **settings
        )

    def score(self, texts, translations):
        """Returns a list of the log-probabilities of given translations.

        They have no length penalty and include the end id. Sources are
        truncated as in `translate`, translations to their maximum length. With
        a blank source a blank translation scores 0, any other -1e9.
        """
        pairs = self.encode_pairs(texts, translations)

        def score_batch(batch):
            return self._score(
                pad_ids([pair.source for pair in batch]),
                pad_ids([pair.target for pair in batch]),
            ).numpy()

        scores = self._in_batches(pairs, score_batch)
        for number, score in enumerate(scores):
            if score is None:
                is_blank = len(pairs[number].target) == 1
                scores[number] = 0.0 if is_blank else IMPOSSIBLE_SCORE
        return [*map(float, scores)]

    def encode_pairs(self, texts, translations):
        """Returns texts and translations as a list of IdPair; see `score`."""
        targets = encode_texts(
            self.tokenizer.target,
            validate_texts(translations, "translations"),
            self.target_limit,
        )
        return [
            IdPair(source.ids, target, source.truncated, target_truncated)
            for source, (target, target_truncated) in zip(
                self.sentences(texts), targets, strict=True
            )
        ]

    def translate_to_pairs(self, texts, on_progress=None):
        """Translates into IdPairs; the target of blank text is the end id."""
        sentences = self.sentences(texts)

        def search_batch(batch):
            source = pad_ids([sentence.ids for sentence in batch])
            tokens = self._graphs.search(source).tokens[:, 0].numpy()
            return [row[row != PAD_ID] for row in tokens]

        end = np.array([END_ID], np.int32)
        targets = self._in_batches(sentences, search_batch, on_progress)
        return [
            IdPair(
                sentence.ids,
                end if target is None else target,
                sentence.truncated,
            )
            for sentence, target in zip(sentences, targets)
        ]

    def sample(self, texts, seeds, rules=None, on_progress=None):
        """Samples translations of each sentence.

        `seeds` has an int from 0 to 2**31 - 1 for each sentence, whose samples
        depend on no other sentence; `rules` is a kt.SamplingConfig. Returns a
        list of lists of Translation in the order drawn, with log-probabilities
        as scores; blank text has one.
        """
        sentences = [
            sentence._replace(seed=seed)
            for sentence, seed in zip(self.sentences(texts), seeds, strict=True)
        ]
        rules = rules or kt.SamplingConfig()
        if rules not in self._samplers:
            self._samplers[rules] = trace_once(
                lambda source, seeds: self._ids.sample(source, seeds, rules),
                IDS_SPEC,
                tf.TensorSpec([None], tf.int32),
            )

        def sample_batch(batch):
            samples = self._samplers[rules](
                pad_ids([sentence.ids for sentence in batch]),
                tf.constant([sentence.seed for sentence in batch], tf.int32),
            )
            texts = self._decode(samples.tokens)
            scores = samples.log_probs.numpy().tolist()
            return [[*map(Translation, *row)] for row in zip(texts, scores)]

        answers = self._in_batches(sentences, sample_batch, on_progress)
        return fill_blanks(sentences, answers)

    def _search(self, sentences, n, align):
        source = pad_ids([sentence.ids for sentence in sentences])
        prefix = None
        if any(len(sentence.prefix) for sentence in sentences):
            prefix = pad_ids([sentence.prefix for sentence in sentences])
        n_best = 1 if n == 1 else self.beam_size
        output = self._graphs.search(source, prefix, n_best, align)
        tokens = output.tokens[:, :n]
        scores = output.scores[:, :n].numpy().tolist()
        alignments = [()] * len(sentences)
        if align:
            texts = tf.constant([sentence.text for sentence in sentences])
            arrays = (
                source_word_spans(
                    self.tokenizer.source, texts, source, self.source_limit
                ),
                target_word_spans(self.tokenizer.target, tokens[:, 0]),
                output.alignments[:, 0],
            )
            alignments = map(word_alignment, *(each.numpy() for each in arrays))
        return [*map(drop_impossible, self._decode(tokens), scores, alignments)]


def _first_unknown(tokenizer, text):
    """Returns the character after the longest known beginning of `text`."""
    # Characters may be known only together, as the parts of a Korean syllable.
    beginnings = [text[:end] for end in range(1, len(text) + 1)]
    known = [UNKNOWN_ID not in ids for ids in tokenizer.encode(beginnings)]
    last = max((end for end, each in enumerate(known, 1) if each), default=0)
    return text[last]


def load_models(paths, ensemble_mean=None):
    """Loads one model, or a kt.Ensemble of several, and the tokenizer.

    `ensemble_mean` is the `mean` of kt.Ensemble. Raises InputError if a file is
    not valid, vocabularies differ, or a mean is given for one model.
    """
    directories = [ModelDirectory(path) for path in paths]
    tokenizers = [directory.load_tokenizer() for directory in directories]
    protos = [
        (tokenizer.source.proto, tokenizer.target.proto)
        for tokenizer in tokenizers
    ]
    validate_equal(paths, protos, "vocabularies")
    return load_ensemble(directories, ensemble_mean), tokenizers[0]


def load_ensemble(directories, ensemble_mean=None):
    """Returns the Transformer of one ModelDirectory, or a kt.Ensemble."""
    if len(directories) == 1 and ensemble_mean is not None:
        raise InputError(
            "--ensemble_mean needs several models; repeat --model, or omit it."
        )
    models = [directory.load_model() for directory in directories]
    if len(models) == 1:
        return models[0]
    mean = {"mean": ensemble_mean} if ensemble_mean else {}
    try:
        return kt.Ensemble(models, **mean)
    except ValueError as error:
        raise InputError(str(error)) from error


def validate_equal(paths, contents, what):
    """Raises InputError if the `contents` of an ensemble's models differ."""
    for path, content in zip(paths, contents):
        if content != contents[0]:
            raise InputError(
                f"{paths[0]} and {path} have different {what}; only models "
                f"with the same {what} decode together."
            )
