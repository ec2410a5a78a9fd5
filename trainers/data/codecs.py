"""Codecs encode corpora of text, or of trees, as token ids.

The files of a codec are stored with the shards. Every sequence of ids ends with
the end id.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from export.common.errors import InputError
from export.tokenizers import load_tokenizer
from export.tokenizers.letter_case import CASE_MARKS
from export.tokenizers.python_tokenizers import (
    has_byte_fallback,
    make_tagged_vocabulary,
)
from export.translators.languages import Languages
from keras_transformer.config import END_ID, UNKNOWN_ID
from trainers.augmentation.noise import has_dotless_i, parse_noise
from trainers.data.bpe_dropout import BpeDropout
from trainers.data.cleaning import has_languages
from trainers.data.corpus import Corpus
from trainers.data.filters import find_filter, parse_filters
from trainers.data.manifest import DataSource
from trainers.data.prepared_corpus import SYMBOLS_FILE, VOCABULARY_FILE
from trainers.data.vocabulary import (
    choose_normalization,
    frequent_characters,
    make_text_normalizer,
    normalization_name,
    train_vocabulary,
)

if TYPE_CHECKING:
    from export.parsing.linearization import SymbolVocabulary
    from trainers.data.counting import TrainingCounts

# A larger sample hardly changes 37,000 tokens, and SentencePiece holds it in
# memory (about 0.5 kB per pair).
_MAX_SAMPLED_PAIRS = 1_000_000
# Maximum share of tokens for rare characters: Chinese has thousands of them.
_MAX_CHARACTER_SHARE = 0.25
# In smaller vocabularies, the 256 tokens for bytes cost BLEU.
_MIN_BYTE_FALLBACK_SIZE = 8000
# The setting of a mixture by the number of tags of a source.
_MIXTURE_TAGS = {1: '"target"', 2: '"both"'}


class Codec:
    """Encodes pairs; base class, made of the files of `make_codec_files`.

    Subclasses set the attributes; their constructors raise ValueError if the
    files are invalid. `encode_sources` and `encode_targets` turn a list of str
    into a list of int32 arrays. `models` has the bytes of each SentencePiece
    model, the source model first. `has_byte_fallback` is whether no character
    is unknown; for tags see SourceTags. The vocabulary is trained on the first
    `num_trained_sides` of (source, target).
    """

    kind: str  # That of the Corpus.
    encode_sources: Callable[[Sequence[str]], list[np.ndarray]]
    encode_targets: Callable[[Sequence[str]], list[np.ndarray]]
    models: tuple[bytes, ...]
    source_vocabulary_size: int
    target_vocabulary_size: int
    num_trained_sides = 2
    num_tags, has_both_tags = 0, False
    has_byte_fallback = False

    def __init__(self, files: Mapping[str, bytes]):
        self._files = files

    def __reduce__(self):
        return _cached_codec, (self.kind, tuple(self._files.items()))

    def explain_unencodable(self, target: str) -> str:
        """Returns why a target cannot be encoded, or "" if it can."""
        del target
        return ""

    def languages(self, source: str | None, target: str | None) -> Languages:
        """Returns the Languages of the vocabulary, for texts of these two."""
        return Languages((), 0, source, target)

    @functools.cached_property
    def normalizers(self) -> list[Callable[[str], str]]:
        """Functions of a str that return it as each vocabulary sees it."""
        return [make_text_normalizer(None, model) for model in self.models]


class TextCodec(Codec):
    """Encodes both sides with SentencePiece (section 5.1).

    Both sides share a vocabulary, unless a pretrained model has one for each.
    """

    kind = "text"

    def __init__(self, files: Mapping[str, bytes]):
        super().__init__(files)
        tokenizer = load_tokenizer(files[VOCABULARY_FILE])
        self._tokenizer = tokenizer
        self.num_tags = tokenizer.source.num_tags
        self.has_both_tags = tokenizer.source.has_both_tags
        self.models = tokenizer.source.proto, tokenizer.target.proto
        self.has_byte_fallback = all(map(has_byte_fallback, self.models))
        self.encode_sources = tokenizer.source.encode
        self.encode_targets = tokenizer.target.encode
        self.source_vocabulary_size = tokenizer.source.vocabulary_size
        self.target_vocabulary_size = tokenizer.target.vocabulary_size

    @functools.cached_property
    def sampling_encoders(self) -> list[Callable[..., list[np.ndarray]]]:
        """As `encode_sources`, `encode_targets`, with random segmentations.

        Their second argument is a NumPy Generator.
        """
        encoders = self.encode_sources, self.encode_targets
        return [
            BpeDropout(encode, model).encode
            for encode, model in zip(encoders, self.models)
        ]

    def languages(self, source: str | None, target: str | None) -> Languages:
        """See Codec."""
        return Languages.from_tokenizer(self._tokenizer, source, target)


class TreeCodec(Codec):
    """Encodes sources with SentencePiece and targets as tree symbols.

    The vocabulary is trained on words only, so that ids mark word beginnings;
    the symbols come from the train split.
    """

    kind = "trees"
    num_trained_sides = 1

    def __init__(self, files: Mapping[str, bytes]):
        super().__init__(files)
        # nltk takes seconds to import.
        from export.parsing.linearization import SymbolVocabulary
        from export.parsing.word_tokenizer import WordTokenizer

        tokenizer = WordTokenizer(files[VOCABULARY_FILE])
        self.models = (files[VOCABULARY_FILE],)
        self._symbols = SymbolVocabulary.from_json(files[SYMBOLS_FILE].decode())
        self.encode_sources = tokenizer.encode
        self.source_vocabulary_size = tokenizer.vocabulary_size
        self.target_vocabulary_size = self._symbols.vocabulary_size

    def explain_unencodable(self, target: str) -> str:
        """See Codec."""
        try:
            self._symbols.encode(target.split())
        except ValueError as error:
            return str(error)
        return ""

    def encode_targets(self, texts: Sequence[str]) -> list[np.ndarray]:
        """See Codec; texts are lines of symbols."""
        return [
            np.array([*self._symbols.encode(text.split()), END_ID], np.int32)
            for text in texts
        ]


CODECS = {each.kind: each for each in (TextCodec, TreeCodec)}


@functools.lru_cache(maxsize=1)
def _cached_codec(kind, files):
    """Returns an unpickled codec, made once for all tasks of a process."""
    return make_codec(kind, dict(files))


def make_codec_files(
    corpus: Corpus,
    data_source: DataSource,
    counts: "TrainingCounts",
    vocabulary: bytes | None = None,
    symbols: "SymbolVocabulary | None" = None,
) -> dict[str, bytes]:
    """Returns the files of a codec, as a dict of name to bytes.

    Trains a vocabulary unless `vocabulary` is given. `counts` come from
    `count_training_pairs`; `vocabulary` and `symbols` as in `prepare_corpus`.
    """
    if vocabulary is None:
        size = data_source.vocabulary_size
        print(f"Training a vocabulary of {size:,} tokens.", flush=True)
        rules = choose_normalization(
            data_source.normalization, counts.code_points
        )
        texts = _sample_texts(corpus, counts.is_unique, data_source, rules)
        if not texts:
            raise InputError(
                f"None of the {np.count_nonzero(counts.is_unique):,} training "
                "pairs passes --check_languages and --filters; check the "
                "languages, the data set and the rules, or omit the flags."
            )
        limit = int(_MAX_CHARACTER_SHARE * size)
        characters = frequent_characters(texts, limit, rules)
        byte_fallback = data_source.byte_fallback == "on" or (
            data_source.byte_fallback == "auto"
            and corpus.kind == "text"
            and size >= _MIN_BYTE_FALLBACK_SIZE
        )
        # Noise has examples of the marks.
        rates = parse_noise(data_source.noise)
        has_marks = all(rates.get(kind) for kind in ("upper", "title"))
        # The marks know nothing of languages.
        languages = corpus.source_language, corpus.target_language
        has_marks &= not any(map(has_dotless_i, languages))
        marks = CASE_MARKS if has_marks else ()
        texts.reverse()
        vocabulary = train_vocabulary(
            # SentencePiece has its own copy.
            (texts.pop() for _ in range(len(texts))),
            size,
            characters,
            rules,
            byte_fallback,
            (*corpus.tags, *marks),
        )
        if corpus.num_tags:
            vocabulary = make_tagged_vocabulary(vocabulary, corpus.num_tags)
    files = {VOCABULARY_FILE: vocabulary}
    if corpus.kind == "trees":
        if symbols is None:
            from export.parsing.linearization import SymbolVocabulary

            symbols = SymbolVocabulary.from_linearized_trees(
                target.split() for _, target in corpus.pairs("train")
            )
        files[SYMBOLS_FILE] = symbols.to_json().encode()
    return files


def _sample_texts(corpus, is_unique, data_source, rules):
    """Returns texts to train a vocabulary on, a list."""
    normalizers = [make_text_normalizer(rules)] * 2
    stride = math.ceil(np.count_nonzero(is_unique) / _MAX_SAMPLED_PAIRS)
    pairs = itertools.compress(corpus.pairs("train"), is_unique)
    sample = itertools.islice(pairs, 0, None, stride)
    num_sides = CODECS[corpus.kind].num_trained_sides
    languages = data_source.languages
    thresholds = parse_filters(data_source.filters)
    return [
        text
        for pair in sample
        if not languages or has_languages(pair, languages, normalizers)
        if not find_filter(pair, normalizers, thresholds)
        for text in pair[:num_sides]
    ]


def make_codec(kind: str, files: Mapping[str, bytes]) -> Codec:
    """Returns the codec for "text" or "trees"; InputError if files are bad."""
    try:
        return CODECS[kind](files)
    except ValueError as error:
        raise InputError(f"The vocabulary cannot be used: {error}") from error


def validate_vocabulary(
    codec: Codec, corpus: Corpus, data_source: DataSource, is_given: bool
) -> None:
    """Raises InputError if a vocabulary does not fit a corpus and its flags.

    Takes the codec of the vocabulary, a Corpus and its DataSource; `is_given`
    is False for a vocabulary that was trained on the corpus.
    """
    size = codec.source_vocabulary_size
    if size != data_source.vocabulary_size:
        raise InputError(
            f"The vocabulary to use has {size} tokens, not vocabulary_size="
            f"{data_source.vocabulary_size}; use --set=vocabulary_size={size}, "
            f"or with trainers.prepare --vocabulary_size={size}."
        )
    rules = normalization_name(codec.models[0])
    has_bytes = "on" if codec.has_byte_fallback else "off"
    for name, value in (("normalization", rules), ("byte_fallback", has_bytes)):
        chosen = getattr(data_source, name)
        if is_given and chosen not in ("auto", value):
            raise InputError(
                f"The vocabulary to use was trained with --{name}={value}, not "
                f"{chosen}; omit the flag."
            )
    if data_source.segmentations > 1:
        # Refuses other vocabularies than BPE.
        _ = codec.sampling_encoders  # type: ignore[attr-defined]
    # With one target language "target" means no tags.
    optional = () if codec.has_both_tags and corpus.directions else (0,)
    if corpus.num_tags not in (codec.num_tags, *optional):
        needed = _MIXTURE_TAGS.get(codec.num_tags, "none")
        raise InputError(
            f"{corpus.name} has tags = {_MIXTURE_TAGS[max(corpus.num_tags, 1)]}"
            f", and the vocabulary to use has {needed}; make them the same."
        )
    for tag in corpus.tags:
        ids, rest = codec.encode_sources([f"{tag} a", "a"])
        if sum(ids != UNKNOWN_ID) == sum(rest != UNKNOWN_ID) + 1:
            continue
        advice = "use one that has, or make a new one"
        if not is_given:
            advice = f"--normalization={rules} changes it, so give another"
        raise InputError(
            f"The vocabulary to use has no token {tag}, which the mixture "
            f"needs; {advice}."
        )
