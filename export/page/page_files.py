"""The files of the page: HTML, scripts, and the model as scripts."""

import base64
import hashlib
import json
import pathlib
from collections.abc import Sequence

import keras_transformer as kt
from export.common.errors import InputError
from export.page.vocabulary import describe_vocabularies
from export.page.weights import pack_weights
from export.translators.batches import truncation_limit
from export.translators.model_backend import MAX_SOURCE_TOKENS
from keras_transformer.config import SEARCH_FIELDS

# Bytes of the weights in each file, which browsers cache separately.
_PART_SIZE = 3_000_000
_MANIFEST = {
    "name": "Translator",
    "start_url": ".",
    "display": "standalone",
    "icons": [{"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"}],
}
_PAGE = pathlib.Path(__file__).parent / "static"
_SHARED = _PAGE.parents[1] / "http_server" / "page"
SCRIPTS_WITHOUT_PAGE = [
    _PAGE / f"{name}.js" for name in ("tokenizer", "engine", "translator")
]


def make_files(
    model: kt.Transformer,
    vocabulary: bytes,
    languages: Sequence[str | None] = (None, None),
) -> dict[str, bytes]:
    """Returns the content of each file by its name.

    `vocabulary` is the content of the model's `vocabulary.model`, `languages`
    are the codes of source and target. Raises InputError if the page lacks an
    option of the model or the vocabulary.
    """
    for name in "attention_window", "retry_ngram_size":
        if value := getattr(model.config, name):
            raise InputError(
                f"The page has no {name}={value}; serve this model with "
                "export.serve instead."
            )
    scripts = [
        each.encode() for each in _make_scripts(model, vocabulary, languages)
    ]
    # A new name for any new content, so that caches never mix two models.
    files = {f"model-{_digest(each)}.js": each for each in scripts}
    tags = [f'<script defer src="{name}"></script>' for name in files]
    sources = _SHARED / "shared.js", *SCRIPTS_WITHOUT_PAGE, _PAGE / "page.js"
    replacements = {
        "SHARED_STYLE": _read(_SHARED / "shared.css"),
        "MODEL_SCRIPTS": "\n".join(tags),
        "SCRIPTS": "\n".join(map(_read, sources)),
    }
    html = _read(_PAGE / "index.html")
    for marker, text in replacements.items():
        html = html.replace(marker, text)
    files["index.html"] = html.encode()
    files["icon.svg"] = (_PAGE / "icon.svg").read_bytes()
    files["manifest.webmanifest"] = json.dumps(_MANIFEST).encode()
    worker = _read(_PAGE / "sw.js")
    worker = worker.replace("FILE_NAMES", json.dumps([".", *files]))
    files["sw.js"] = worker.replace(
        "VERSION", _digest(b"".join(files.values()))
    ).encode()
    return files


def _make_scripts(model, vocabulary, languages):
    """Returns the scripts of the configuration and of parts of the weights."""
    tensors, weights = pack_weights(model)
    config = model.config
    fields = config.architecture()
    fields |= {name: getattr(config, name) for name in SEARCH_FIELDS}
    if config.positions == "sinusoidal":
        layer = model.source_positions
        fields["frequencies"] = layer.frequencies.tolist()
        fields["first_position"] = layer.first_position
    description = {
        "config": fields,
        "limit": truncation_limit(config, MAX_SOURCE_TOKENS),
        "languages": [each and each.replace("_", "-") for each in languages],
        "tensors": tensors,
        "size": len(weights),
        "vocabularies": describe_vocabularies(vocabulary),
    }
    scripts = [f"const model = {json.dumps(description)}, modelParts = [];"]
    for start in range(0, len(weights), _PART_SIZE):
        part = weights[start : start + _PART_SIZE]
        scripts.append(f'modelParts.push("{base64.b64encode(part).decode()}");')
    return scripts


def _read(path):
    return path.read_text("utf-8").rstrip()


def _digest(content):
    return hashlib.sha256(content).hexdigest()[:16]
