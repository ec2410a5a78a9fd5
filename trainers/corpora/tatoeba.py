"""The embedded corpus: English–French sentence pairs of Tatoeba.

177,832 distinct pairs of real sentences of about six words. The split is
fixed by these rules and by nothing else:

1. Every run of white space (French has several kinds) becomes one space.
   Each pair counts once.
2. Two sentences are *variants* when they have the same key: the sentence
   after NFKC and casefold, without everything that is not a letter or a
   digit. A pair with an empty key on either side is dropped.
3. The keys of the English sentences are ordered by their sha256. The pairs
   of the first 2,000 keys are held out for test, those of the next 2,000
   for dev, and the rest are for training, whatever the direction.
4. No source is on two sides: dev loses the pairs whose source is a variant
   of a test source, and training those whose source is a variant of a dev
   or test source. From English, rule 3 has seen to that already; from
   French it matters, since one French sentence may translate several
   English ones.
5. In dev and test each source key stands once, in the order of the keys'
   sha256: as the one of its sentences that has the most references (of
   several, the first by code point), with exactly that sentence's
   references, in the order of the file. From French these are the English
   sentences of the same split.

So no English sentence and no source of dev or test has a variant in
training. From English, a French reference may also be the translation of
another English sentence in training ("Va !" is "Go." and "Move."), as in
any test set whose split goes by the source.

The file lies in the source distribution of the Python package `nmt` 0.0.6. Only
one text file of it is read, after its hash is checked; nothing of that package
is installed, unpacked to disk or run.
"""

import hashlib
import io
import os
import re
import sys
import tarfile
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from export.errors import InputError
from export.files.atomic import written_whole
from trainers.corpora import tatoeba
from trainers.corpora.corpus import (
    Row,
    RowCorpus,
    resolve_languages,
    text_fingerprint,
)
from trainers.corpora.package_index import (
    FetchError,
    fetch_source_distribution,
)

PACKAGE = "nmt"
VERSION = "0.0.6"
FILE_NAME = f"{PACKAGE}-{VERSION}.tar.gz"
SIZE = 15_744_217
SHA256 = "65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096"
_ZIP_IN_TAR = f"{PACKAGE}-{VERSION}/data/fra-eng.zip"
_TEXT_IN_ZIP = "fra.txt"
_CACHE_VARIABLE = "KERAS_TRANSFORMER_CACHE"


def read_tatoeba_text() -> str:
    """Returns the text of fra.txt, fetching the archive where needed.

    The archive is kept in the cache folder and its hash is checked at every
    use; one that is damaged is fetched anew.

    Raises:
        InputError: the archive cannot be had, is not the expected one, or
            cannot be kept.
    """
    path = cache_folder() / FILE_NAME
    content = _read_cached(path)
    if content is None:
        content = _fetch(path.parent)
        with written_whole(path) as partial:
            partial.write_bytes(content)
    return _text_of(content)


def cache_folder() -> Path:
    """Returns the folder for downloads; it need not be there yet.

    $KERAS_TRANSFORMER_CACHE where set, else keras_transformer in
    $XDG_CACHE_HOME, else ~/.cache/keras_transformer.
    """
    own = os.environ.get(_CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    general = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    if not general.is_absolute():
        general = Path.home() / ".cache"
    return general / "keras_transformer"


def _is_genuine(content: bytes) -> bool:
    return (
        len(content) == SIZE and hashlib.sha256(content).hexdigest() == SHA256
    )


def _read_cached(path: Path) -> bytes | None:
    try:
        if path.stat().st_size == SIZE:
            content = path.read_bytes()
            if _is_genuine(content):
                return content
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"Cannot read {path} ({error.strerror}); set {_CACHE_VARIABLE} "
            "to a folder that can be read and written."
        ) from error
    _say(f"{path} is damaged (wrong size or sha256); fetching it anew.")
    return None


def _fetch(folder: Path) -> bytes:
    _say(f"Fetching the Tatoeba corpus ({SIZE / 1e6:.1f} MB) to {folder}.")
    try:
        content = fetch_source_distribution(PACKAGE, VERSION, SIZE)
    except FetchError as error:
        raise InputError(
            f"Cannot fetch the Tatoeba corpus ({error}); set "
            f"{_CACHE_VARIABLE} to a folder that holds {FILE_NAME}, or train "
            "on files of your own with --dataset=text:PREFIX."
        ) from error
    if not _is_genuine(content):
        raise InputError(
            f"The {FILE_NAME} that the package index gave is not the "
            f"expected file ({SIZE} bytes, sha256 {SHA256}) and was thrown "
            f"away; set {_CACHE_VARIABLE} to a folder that holds the right "
            "one."
        )
    return content


def _text_of(content: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        packed = tar.extractfile(_ZIP_IN_TAR)
        # None stands for a folder of that name: the hash rules it out.
        assert packed is not None
        inner = io.BytesIO(packed.read())
    with zipfile.ZipFile(inner) as archive:
        return archive.read(_TEXT_IN_ZIP).decode("utf-8")


def _say(line: str) -> None:
    print(line, file=sys.stderr)


NAME = "tatoeba-en-fr"
LANGUAGES = ("en", "fr")
ATTRIBUTION = (
    "Sentences: Tatoeba (https://tatoeba.org), CC BY 2.0 FR "
    "(https://creativecommons.org/licenses/by/2.0/fr/), "
    "through https://www.manythings.org/anki."
)
HELD_OUT_KEYS = 2_000
# To be raised whenever the rules above change what is in a split.
_RULES = "1"

Pair = tuple[str, str]
Splits = dict[str, list[Pair]]


class TatoebaCorpus(RowCorpus):
    """The embedded corpus, in either direction; see the module.

    Args:
        dataset: the name it was asked for by.
        source_language: "en" or "fr"; by default what the target is not.
        target_language: "en" or "fr"; by default from English to French.

    Raises:
        InputError: another language, twice the same, or the corpus cannot
            be had (see `read_tatoeba_text`).
    """

    attribution = ATTRIBUTION

    def __init__(
        self,
        dataset: str = NAME,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> None:
        super().__init__(
            dataset,
            *resolve_languages(
                dataset, LANGUAGES, source_language, target_language, LANGUAGES
            ),
        )
        splits = split_by_english(parse(tatoeba.read_tatoeba_text()))
        if self.source_language != LANGUAGES[0]:
            splits = {name: _swapped(pairs) for name, pairs in splits.items()}
        self._pairs_of = without_shared_sources(splits)

    def splits(self) -> tuple[str, ...]:
        """See the base class."""
        return tuple(self._pairs_of)

    def fingerprint(self) -> str:
        """Returns 16 hex digits for the archive, rules and direction."""
        return text_fingerprint(
            tatoeba.SHA256,
            _RULES,
            self.source_language,
            self.target_language,
        )

    def _rows(self, split: str) -> Iterator[Row]:
        pairs = self._pairs_of[split]
        if split == "train":
            return ((source, (target,)) for source, target in pairs)
        return map(_row_of, _by_source_key(pairs).values())


def variant_key(sentence: str) -> str:
    r"""Returns what a sentence shares with all its variants.

    NFKC, casefold, and then only letters and digits (`str.isalnum`).
    """
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return re.sub(r"[\W_]+", "", folded)


def parse(text: str) -> list[Pair]:
    """Returns the distinct (English, French) pairs of fra.txt, in order.

    Args:
        text: lines of English, French and attribution, divided by tabs.
    """
    fields = (line.split("\t")[:2] for line in text.split("\n") if line)
    pairs = (
        (" ".join(english.split()), " ".join(french.split()))
        for english, french in fields
    )
    return [
        pair for pair in dict.fromkeys(pairs) if all(map(variant_key, pair))
    ]


def split_by_english(
    pairs: Iterable[Pair], held_out: int = HELD_OUT_KEYS
) -> Splits:
    """Returns the pairs as train, dev and test, by the key of the English.

    Args:
        pairs: (English, French).
        held_out: how many keys test and dev each get.
    """
    groups = list(_by_source_key(pairs).values())
    bounds = {
        "train": groups[2 * held_out :],
        "dev": groups[held_out : 2 * held_out],
        "test": groups[:held_out],
    }
    return {
        name: [pair for group in part for pair in group]
        for name, part in bounds.items()
    }


def without_shared_sources(splits: Splits) -> Splits:
    """Drops from dev and train what shares a source key with a later split.

    Args:
        splits: (source, target) pairs of train, dev and test.

    Returns:
        the same splits: test whole, dev without variants of test sources,
        train without variants of dev and test sources.
    """
    kept: Splits = {}
    taken: set[str] = set()
    for name in ("test", "dev", "train"):
        keyed = [(variant_key(pair[0]), pair) for pair in splits[name]]
        kept[name] = [pair for key, pair in keyed if key not in taken]
        taken.update(key for key, _ in keyed)
    return {name: kept[name] for name in splits}


def _by_source_key(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Groups pairs by the key of their source, in the keys' sha256 order."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(variant_key(pair[0]), []).append(pair)
    return {key: groups[key] for key in sorted(groups, key=_rank)}


def _rank(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


def _row_of(variants: Iterable[Pair]) -> Row:
    references: dict[str, list[str]] = {}
    for source, target in variants:
        references.setdefault(source, []).append(target)
    chosen = min(references, key=lambda s: (-len(references[s]), s))
    return chosen, tuple(references[chosen])


def _swapped(pairs: Iterable[Pair]) -> list[Pair]:
    return [(target, source) for source, target in pairs]
