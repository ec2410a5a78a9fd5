"""Mixtures of corpora, for one model of several pairs of languages.

`mixture:FILE` reads a TOML file such as

    temperature = 5              # 1 by default: pairs as often as they are
    tags = "both"                # "target" by default

    [[corpora]]
    dataset = "text:data/news"   # relative to the file's folder; or another
                                 # name for --dataset, but no mixture or trees
    source_language = "en"
    target_language = "de"
    weight = 2                   # 1 by default
    tag = "<bt>"                 # none by default

If there are several target languages, a source begins with the tag of its own,
such as `>>de<<`, as in OPUS-MT's models. With tags = "both" it always begins
with the tags of both languages, such as `>>en<< >>de<<`, as in NLLB-200. `tag`
follows, for a domain or an origin. Each tag is one token.

In an epoch each pair of sentences occurs in proportion to the weight of its
corpus and to N^(1/T - 1), for N pairs of its two languages and temperature T
(Arivazhagan et al. 2019), and at least once.
"""

import collections
import functools
import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator

from export.common.errors import InputError
from export.common.storage import explain_read_errors, resolve_path
from export.translators.languages import SEVERAL_LANGUAGES
from keras_transformer.config import validate_range
from trainers.data.corpus import (
    Corpus,
    EvaluationSet,
    text_fingerprint,
    validate_language_code,
)
from trainers.data.pair_files.pair_corpus import FILE_KINDS

# The types of each field.
_MIXTURE_FIELDS = {
    "corpora": (list,),
    "temperature": (int, float),
    "tags": (str,),
}
_CORPUS_FIELDS = {
    "dataset": (str,),
    "source_language": (str,),
    "target_language": (str,),
    "weight": (int, float),
    "tag": (str,),
}
_MAX_FACTOR = 1e6


class _Part:
    """A corpus of a mixture, its weight, and the tags of its sentences."""

    def __init__(self, corpus, weight, tag):
        self.corpus, self.weight = corpus, weight
        self.direction = corpus.source_language, corpus.target_language
        self.language_tags, self.domain_tags = [], [tag] if tag else []

    @property
    def tags(self):
        return self.language_tags + self.domain_tags

    def tagged_pairs(self, split, rate=1.0):
        """Yields (pair, times), of `rate` times on average, evenly spread."""
        for index, (source, target) in enumerate(self.corpus.pairs(split)):
            times = math.floor((index + 1) * rate) - math.floor(index * rate)
            yield (" ".join([*self.tags, source]), target), times

    def evaluation_rows(self, split):
        """Yields source, references and languages of each sentence."""
        plain = self.corpus.evaluation_set(split)
        for source, references in zip(plain.sources, plain.references):
            # Blank ones are not scored.
            tags = self.domain_tags if source.strip() else []
            yield " ".join([*tags, source]), references, self.direction


class MixtureCorpus(Corpus):
    """Several corpora; see the module docstring.

    `pairs` have tags; `evaluation_set` has the languages of each sentence
    instead of their tags. Each direction has a dev split of its own: dev-1,
    dev-2 and so on.

    Args:
        dataset: "mixture:FILE".
        open_part: function of dataset, source and target language that returns
            the Corpus.
    """

    def __init__(
        self, dataset: str, open_part: Callable[[str, str, str], Corpus]
    ):
        path = dataset.removeprefix("mixture:")
        with explain_read_errors(path):
            content = resolve_path(path).read_bytes()
        try:
            settings = _parse_settings(content)
            folder = resolve_path(path).parent
            parts = [
                _open_part(table, folder, open_part)
                for table in settings["corpora"]
            ]
        except RecursionError:
            raise InputError(
                f"{path}: its tables are nested too deep."
            ) from None
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}: {error}") from error
        languages = zip(*(part.direction for part in parts))
        super().__init__(
            dataset,
            *(
                each[0] if len(set(each)) == 1 else SEVERAL_LANGUAGES
                for each in languages
            ),
        )
        self._settings = settings
        self._parts = parts
        if settings["tags"] == "both":
            self.num_tags = 2
        elif self.target_language == SEVERAL_LANGUAGES:
            self.num_tags = 1
        for part in parts:
            languages = part.direction[2 - self.num_tags :]
            part.language_tags = [f">>{code}<<" for code in languages]
        for part in parts:
            if "train" not in part.corpus.splits():
                raise InputError(
                    f"{path}: {part.corpus.name} has no train split; every "
                    "corpus of a mixture needs one."
                )
        self._splits = {"train": self._parts}
        with_dev = self._parts_with("dev")
        directions = dict.fromkeys(part.direction for part in with_dev)
        if not directions:
            raise InputError(
                f"{path}: no corpus has a dev split; a mixture needs one of at "
                "least one pair of languages, since the training loss depends "
                "on the mixture."
            )
        for number, direction in enumerate(directions, 1):
            self.directions[f"dev-{number}"] = direction
            self._splits[f"dev-{number}"] = [
                part for part in with_dev if part.direction == direction
            ]
        if with_test := self._parts_with("test"):
            self._splits["test"] = with_test
        credits = (part.corpus.attribution for part in self._parts)
        self.attribution = "\n".join(dict.fromkeys(filter(None, credits)))
        tags = (tag for part in parts for tag in part.tags)
        self.tags = tuple(dict.fromkeys(tags))

    def fingerprint(self) -> str:
        """Returns the fingerprints of the settings and of all corpora."""
        # Not of the file: a comment changes nothing.
        text = json.dumps(self._settings, sort_keys=True)
        settings = f"the mixture 0 {text_fingerprint(text)}"
        parts = (part.corpus.fingerprint() for part in self._parts)
        return "; ".join(dict.fromkeys([settings, *parts]))

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (source, target) with tags, of train as often as it says."""
        return itertools.chain.from_iterable(
            itertools.starmap(itertools.repeat, self.repeated_pairs(split))
        )

    def repeated_pairs(
        self, split: str
    ) -> Iterator[tuple[tuple[str, str], int]]:
        """Yields ((source, target), times) with tags."""
        self._validate_split(split)
        rates = self._rates if split == "train" else itertools.repeat(1.0)
        return itertools.chain.from_iterable(
            part.tagged_pairs(split.partition("-")[0], rate)
            for part, rate in zip(self._splits[split], rates)
        )

    @functools.cached_property
    def _rates(self):
        """How often a pair of each corpus occurs in an epoch, floats."""
        sizes = [
            sum(1 for _ in each.corpus.pairs("train")) for each in self._parts
        ]
        totals = collections.Counter()
        for part, size in zip(self._parts, sizes):
            totals[part.direction] += size
        exponent = 1 / self._settings["temperature"] - 1
        shares = [
            part.weight * totals[part.direction] ** exponent
            for part in self._parts
        ]
        rates = [share / min(shares) for share in shares]
        for part, size, rate in zip(self._parts, sizes, rates):
            print(
                f"{part.corpus.name}, {' to '.join(part.direction)}: {size:,} "
                f"pairs, each {rate:.4g} times in an epoch.",
                flush=True,
            )
        return rates

    def _parts_with(self, split):
        return [part for part in self._parts if split in part.corpus.splits()]

    def evaluation_set(self, split: str) -> EvaluationSet:
        """Returns the rows of all corpora, with the languages of each."""
        parts = self._parts_with(split)
        if not parts:
            raise InputError(
                f"{self.name} has no {split!r} split: its splits are train, "
                "dev and test, each of all corpora that have one."
            )
        # Scored and written by direction.
        directions = [part.direction for part in parts]
        parts.sort(key=lambda part: directions.index(part.direction))
        rows = (part.evaluation_rows(split) for part in parts)
        return EvaluationSet(*zip(*itertools.chain.from_iterable(rows)))

    def _rows(self, split):
        raise NotImplementedError


def _open_part(table, folder, open_part):
    """Returns the _Part of a table in a file of a folder; or ValueError."""
    if not isinstance(table, dict):
        raise ValueError(f"expected [[corpora]] tables, got {table!r}.")
    settings = {"weight": 1, "tag": ""} | table
    _validate_fields(settings, _CORPUS_FIELDS)
    weight, tag = settings["weight"], settings["tag"]
    validate_range("weight", float(weight), 1 / _MAX_FACTOR, _MAX_FACTOR)
    if not re.fullmatch(r"(<[\w-]+>)?", tag):
        raise ValueError(
            "expected a tag of letters, digits and hyphens in angle brackets, "
            f"such as <bt>, got {tag!r}."
        )
    languages = settings["source_language"], settings["target_language"]
    for language in languages:
        validate_language_code(language, "give another name.")
    # Before opening them: they have no two languages.
    if settings["dataset"].startswith(("mixture:", "trees:")):
        raise ValueError(
            f"{settings['dataset']} cannot be part of a mixture; give corpora "
            "of text in two languages."
        )
    dataset = _resolve_dataset(settings["dataset"], folder)
    return _Part(open_part(dataset, *languages), weight, tag)


def _resolve_dataset(dataset, folder):
    """Returns the name of a corpus, with its path relative to a folder."""
    kind, _, prefix = dataset.partition(":")
    has_path = kind in ("text", *FILE_KINDS) and prefix
    if not has_path or "://" in prefix or prefix[0] in "/~":
        return dataset
    path = str(folder / prefix).removesuffix("/")
    # The slash of a folder, which paths lose.
    return f"{kind}:{path}{'/' * prefix.endswith('/')}"


def _parse_settings(content):
    """Returns the settings of a mixture with defaults, or raises ValueError."""
    settings = {"temperature": 1, "tags": "target"}
    settings |= tomllib.loads(content.decode("utf-8-sig"))
    _validate_fields(settings, _MIXTURE_FIELDS)
    if settings["tags"] not in ("target", "both"):
        raise ValueError(
            f'expected tags = "target" or "both", got {settings["tags"]!r}.'
        )
    temperature = float(settings["temperature"])
    validate_range("temperature", temperature, 1.0, _MAX_FACTOR)
    if not settings["corpora"]:
        raise ValueError("expected a [[corpora]] table for each corpus.")
    return settings


def _validate_fields(table, fields):
    """Raises ValueError unless a table has these fields, of these types."""
    if table.keys() != fields.keys():
        name = min(table.keys() ^ fields.keys())
        problem = "unknown" if name in table else "missing"
        raise ValueError(
            f"{name} is {problem}; the fields are {', '.join(fields)}."
        )
    for name, types in fields.items():
        # isinstance would accept bool as int.
        if type(table[name]) not in types:
            expected = " or ".join(each.__name__ for each in types)
            raise ValueError(
                f"expected {name} of type {expected}, got {table[name]!r}."
            )
