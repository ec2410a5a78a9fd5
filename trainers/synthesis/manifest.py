"""Manifest of a folder of synthetic pairs: input, models and options."""

import dataclasses
import json

from export.common.errors import InputError
from export.common.paths import convert_remote_errors, error_reason, list_names

MANIFEST_FILE = "manifest.json"
# Names of the counts, in the order of the report.
OUTCOMES = (
    *("read", "blank", "too_long", "empty_translation", "length_ratio"),
    *("low_score", "duplicate", "written"),
)
_FORMAT = 1
# Errors raised by JSON of any other form.
_INVALID = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SynthesisOptions:
    """The flags of trainers.synthesize that determine the pairs.

    Search options of None mean the model's own value. `batch_tokens` and
    `threads` may change the last bit of a score.
    """

    direction: str
    source_language: str
    target_language: str
    decoding: str = "beam"
    beam_size: int | None = None
    alpha: float | None = None
    max_extra_tokens: int | None = None
    stop_criterion: str | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    best_of: int = 1
    metric: str = "bleu"
    tokenize: str = "13a"
    seed: int = 1
    tag: str = ""
    word_drop: float = 0.0
    word_swap: int = 0
    max_pieces: int = 256
    max_ratio: float | None = None
    min_score: float | None = None
    keep_duplicates: bool = False
    shard_lines: int = 1000
    batch_tokens: int = 2048
    threads: int = 1

    @property
    def model_languages(self):
        """The languages that the models translate from and into."""
        pair = self.source_language, self.target_language
        return pair if self.direction == "forward" else pair[::-1]

    @property
    def search(self):
        """The search options that are set, as arguments of Translator."""
        names = ("beam_size", "alpha", "max_extra_tokens", "stop_criterion")
        values = {name: getattr(self, name) for name in names}
        return {name: each for name, each in values.items() if each is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """Input, models and options of synthetic pairs, as JSON values.

    `input` has the name, number of lines and SHA-256, `models` the path and
    file digests of each model, `options` the fields of SynthesisOptions.
    `counts` are lines or pairs by `OUTCOMES`, and {} until the end.
    """

    format: int = _FORMAT
    input: dict
    models: list
    options: dict
    counts: dict = dataclasses.field(default_factory=dict)

    def facts(self):
        """Returns a dict of all that determines the pairs, for messages."""
        digests = [
            f"{name} of SHA-256 {digest[:12]}"
            for model in self.models
            for name, digest in model["sha256"].items()
        ]
        return {
            **self.options,
            "an input of": f"{self.input['lines']:,} lines and SHA-256 "
            f"{self.input['sha256'][:12]}",
            "the model": ", ".join(digests),
        }


def format_counts(counts):
    """Formats the `counts` of a Manifest."""
    words = [f"{count:,} {name}" for name, count in counts.items() if count]
    return ", ".join(words).replace("_", " ")


def validate_output_folder(folder, *own_names):
    """Raises InputError if a folder holds files, but none of `own_names`.

    Temporary files count, because their names contain the final name.
    """
    try:
        names = list_names(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            f"Cannot use {folder} as --output_dir: {error_reason(error)}."
        ) from error
    if names and not any(own in name for own in own_names for name in names):
        raise InputError(
            f"{folder} holds other files, such as {min(names)}; give an empty "
            "or a new --output_dir."
        )


def read_manifest(folder):
    """Returns the Manifest of a folder, or None; InputError if malformed."""
    path = folder / MANIFEST_FILE
    try:
        with convert_remote_errors(path):
            text = path.read_text(encoding="utf-8")
        manifest = Manifest(**json.loads(text))
        if manifest.format != _FORMAT:
            raise ValueError(f"format {manifest.format}, not {_FORMAT}")
        # These raise on malformed values.
        manifest.facts()
        format_counts(manifest.counts)
        return manifest
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error_reason(error)}."
        ) from error
    except _INVALID as error:
        raise InputError(
            f"{path} is not the manifest of synthesized pairs ({error!r}); "
            "give another --output_dir."
        ) from error


def validate_same(folder, before, manifest):
    """Raises InputError if two manifests describe different pairs.

    File contents are compared, file names are not.
    """
    now = manifest.facts()
    for name, value in before.facts().items():
        if now.get(name) != value:
            raise InputError(
                f"{folder} was made with {name} {value}, not {now.get(name)}; "
                "restore it and give the same flags to resume, or "
                "give another --output_dir."
            )
