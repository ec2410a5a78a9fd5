"""The embedded corpus: English–French sentence pairs of Tatoeba.

It has 177,832 distinct pairs of real sentences of about six words. These rules
alone determine the splits:

1. Every run of white space (French has several kinds) becomes one space, and
   duplicate pairs are dropped.
2. The key of a sentence consists of its letters and digits after NFKC and
   casefolding. Sentences with the same key are *variants*. A pair with an
   empty key on either side is dropped.
3. English keys are ordered by their sha256. In either direction, the pairs
   of the first 2,000 keys are the test split, the pairs of the next 2,000 are
   dev, and the rest is train.
4. No source is in two splits: pairs are dropped from dev if their source is a
   variant of a test source, and from train if it is a variant of a dev or test
   source. This matters from French only, where one sentence may translate
   several English ones.
5. Dev and test have each source key once, in the order of its sha256. Its
   variant with the most references is used (the first by code point among
   equals), with its references in file order. From French, references are the
   English sentences of the same split.

So no English sentence and no source of dev or test has a variant in train.
From English, a reference may also translate another English sentence in train
("Va !" is "Go." and "Move."), as in any test set that is split by source.

The data are one text file in the source distribution of the Python package
`nmt` 0.0.6, which is never installed or run: `pip download` would run its setup
script, while `unearth` only downloads the file. `unearth` does not read pip's
configuration, so this module passes it on.
"""

import ast
import functools
import hashlib
import io
import os
import re
import ssl
import subprocess
import sys
import tarfile
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from export.common.errors import InputError
from export.common.storage import write_bytes
from trainers.data.corpus import Corpus, resolve_languages, text_fingerprint

NAME = "tatoeba-en-fr"
LANGUAGES = ("en", "fr")
HELD_OUT_KEYS = 2_000
# Increment whenever the rules above change the content of a split.
_RULES_VERSION = "1"

_PACKAGE, _VERSION = "nmt", "0.0.6"
FILE_NAME = f"{_PACKAGE}-{_VERSION}.tar.gz"
SIZE = 15_744_217
SHA256 = "65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096"
_ZIP_IN_TAR = f"{_PACKAGE}-{_VERSION}/data/fra-eng.zip"
_TEXT_IN_ZIP = "fra.txt"
_CACHE_VARIABLE = "KERAS_TRANSFORMER_CACHE"
_CACHE_FOLDER = "~/.cache/keras_transformer"
_NOT_IN_KEY = re.compile(r"[\W_]+")
# Later sections win. Many users set their index for `pip install` only.
_PIP_SECTIONS = ("global", "install", "download", ":env:")
Pair = tuple[str, str]


class TatoebaCorpus(Corpus):
    """The embedded corpus, in either direction (see the module docstring)."""

    attribution = (
        "Sentences: Tatoeba (https://tatoeba.org), CC BY 2.0 FR "
        "(https://creativecommons.org/licenses/by/2.0/fr/), "
        "through https://www.manythings.org/anki."
    )

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
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
        self._splits = drop_shared_sources(splits)
        variant_key.cache_clear()

    def fingerprint(self) -> str:
        """Returns a hash of archive, rules and direction, as 16 hex digits."""
        return text_fingerprint(
            SHA256, _RULES_VERSION, self.source_language, self.target_language
        )

    def _rows(self, split):
        pairs = self._splits[split]
        if split == "train":
            return ((source, (target,)) for source, target in pairs)
        return map(_select_variant, _group_by_source_key(pairs))


def parse_pairs(text: str) -> list[Pair]:
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


@functools.cache
def variant_key(sentence: str) -> str:
    """Returns the key that a sentence shares with its variants (rule 2)."""
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return _NOT_IN_KEY.sub("", folded)


def split_by_english(
    pairs: Iterable[Pair], held_out: int = HELD_OUT_KEYS
) -> dict[str, list[Pair]]:
    """Splits (English, French) pairs; dev and test get `held_out` keys each."""
    groups = _group_by_source_key(pairs)
    return {
        "train": list(chain(*groups[2 * held_out :])),
        "dev": list(chain(*groups[held_out : 2 * held_out])),
        "test": list(chain(*groups[:held_out])),
    }


def drop_shared_sources(
    splits: Mapping[str, list[Pair]],
) -> dict[str, list[Pair]]:
    """Drops pairs with the source key of an evaluation split (rule 4)."""
    splits = dict(splits)
    seen: set[str] = set()
    for name in ("test", "dev", "train"):
        keyed = [(variant_key(pair[0]), pair) for pair in splits[name]]
        splits[name] = [pair for key, pair in keyed if key not in seen]
        seen.update(key for key, _ in keyed)
    return splits


def _group_by_source_key(pairs):
    """Returns lists of pairs with one source key, ordered by its sha256."""
    groups = {}
    for pair in pairs:
        groups.setdefault(variant_key(pair[0]), []).append(pair)
    ordered = sorted(groups, key=lambda key: _sha256(key.encode()))
    return [groups[key] for key in ordered]


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _select_variant(pairs):
    """Returns (source, references) of the chosen variant (rule 5)."""
    references = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    chosen = min(references, key=lambda s: (-len(references[s]), s))
    return chosen, tuple(references[chosen])


def read_tatoeba_text() -> str:
    """Returns the text of fra.txt from the cached archive.

    Downloads the archive if it is missing or its hash is wrong.
    """
    path = archive_path()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise InputError(
            f"Cannot read {path} ({error.strerror}); set {_CACHE_VARIABLE} "
            "to a folder that can be read and written."
        ) from error
    if _sha256(content) != SHA256:
        print(
            f"Fetching the Tatoeba corpus ({SIZE / 1e6:.1f} MB) to {path}.",
            file=sys.stderr,
        )
        content = fetch_archive()
        write_bytes(path, content)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        file = tar.extractfile(_ZIP_IN_TAR)
        zip_content = file.read()  # type: ignore[union-attr]
    with zipfile.ZipFile(io.BytesIO(zip_content)) as archive:
        return archive.read(_TEXT_IN_ZIP).decode("utf-8")


def archive_path() -> Path:
    """Returns the path of the archive, which need not exist yet."""
    folder = os.environ.get(_CACHE_VARIABLE) or _CACHE_FOLDER
    return Path(folder).expanduser() / FILE_NAME


def fetch_archive() -> bytes:
    """Downloads the archive from the first of pip's indexes that has it."""
    options = read_pip_options()
    indexes = [
        options.get("index-url") or "https://pypi.org/simple",
        *options.get("extra-index-url", "").split(),
    ]
    failures = []
    for index in indexes:
        try:
            return _download(index, options)
        # After any failure, the next index may have the file.
        except Exception as error:
            failures.append(f"{index}: {error or type(error).__name__}")
    reasons = " ".join("; ".join(failures).split())
    # URLs may contain passwords.
    reasons = re.sub(r"//[^/\s@]+@", "//***@", reasons)
    raise InputError(
        f"Cannot fetch the Tatoeba corpus ({reasons}); set {_CACHE_VARIABLE} "
        f"to a folder that holds {FILE_NAME}, or train on your own files with "
        "--dataset=text:PREFIX."
    )


def read_pip_options() -> dict[str, str]:
    """Returns pip's options from its files and environment variables."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    options = {}
    for section in _PIP_SECTIONS:
        pattern = rf"^{section}\.([\w-]+)=(['\"].*)$"
        for option, value in re.findall(pattern, listing, re.MULTILINE):
            options[option] = ast.literal_eval(value)
    return options


def _download(index, options):
    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    def check_size(link, completed, total):
        if completed > SIZE:
            raise ValueError(f"the file is larger than {SIZE} bytes")

    # PyPIClient has attributes that the finder's interface lacks.
    with PyPIClient(
        trusted_hosts=options.get("trusted-host", "").split(),
        verify=ssl.create_default_context(cafile=options.get("cert") or None),
    ) as client:
        # A job without a terminal must fail, not wait for a password.
        client.auth = MultiDomainBasicAuth(prompting=False, index_urls=[index])
        finder = PackageFinder(client, index_urls=[index], no_binary=[_PACKAGE])
        matches = finder.find_matches(f"{_PACKAGE}=={_VERSION}")
        if not matches:
            raise ValueError(f"it has no {_PACKAGE} {_VERSION}")
        with tempfile.TemporaryDirectory() as folder:
            content = finder.download(
                matches[0].link, folder, download_reporter=check_size
            ).read_bytes()
    if _sha256(content) != SHA256:
        raise ValueError(f"its {FILE_NAME} has another sha256 than expected")
    return content
