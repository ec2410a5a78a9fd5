"""Writes the model card of a translator: `python -m export.model_card`.

    python -m export.model_card --model_dir=runs/demo --publish=hf://me/en-fr
    python -m export.model_card --export=exports/demo

The card is a README.md in Hugging Face's form. It has what the files of the
model record, and "not recorded" where they do not.
"""

import json
import pathlib
import re

import yaml
from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import format_duration
from export.common.storage import explain_read_errors, resolve_path, write_bytes
from export.model_directory import ModelDirectory
from export.remote_models import MODEL_FILES, open_url, publish_model
from export.serving import export_directory
from export.translators.languages import base_code

FLAGS = flags.FLAGS
flags.DEFINE_string("model_dir", None, "Model directory to describe.")
flags.DEFINE_string("export", None, "Exported version, or folder of versions.")
flags.DEFINE_string("output", None, "The card; by default README.md inside.")
flags.DEFINE_string("license", None, "The model's licence, as in cc-by-4.0.")
flags.DEFINE_string(
    "publish",
    None,
    "URL to copy the card and the files that a translator needs to, such as "
    "hf://owner/name of an existing repository.",
)

_MARKER = "<!-- Written by export.model_card, which replaces this file. -->"
_UNKNOWN = "not recorded"
# See NOTICE.
_DATA_LICENCES = {
    "tatoeba-en-fr": "CC BY 2.0 FR, of the [Tatoeba](https://tatoeba.org) "
    "project, through [manythings.org](https://www.manythings.org/anki)"
}
_DATA_SETTINGS = (
    *("drop_duplicates", "drop_near_duplicates", "check_languages", "filters"),
    *("max_ratio", "keep_share", "noise", "copy_rate", "segmentations"),
)
# Hugging Face's names of metrics.
_HUB_METRICS = {"BLEU": "sacrebleu", "chrF": "chrf"}
_ARGUMENTS = ("signature", "confidence_95")


def main(arguments: list[str]) -> None:
    """Writes the card, and publishes it with the model."""
    del arguments
    if (FLAGS.model_dir is None) == (FLAGS.export is None):
        raise InputError("Give either --model_dir or --export.")
    if FLAGS.publish and (FLAGS.export or "://" not in FLAGS.publish):
        raise InputError(
            "--publish copies a --model_dir to a URL such as hf://owner/name, "
            f"got {FLAGS.publish}."
        )
    model = FLAGS.model_dir or FLAGS.export
    folder = pathlib.Path(model)
    if FLAGS.export:
        folder = export_directory.newest_version(folder) or folder
    read = _read_export if FLAGS.export else _read_directory
    try:
        card = _make_card(read(folder), FLAGS.publish or model).encode()
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InputError(
            f"The records in {folder} cannot be read ({error!r}); expected "
            "files as trainers.wmt and export.saved_model write them."
        ) from error
    output = resolve_path(FLAGS.output or folder / "README.md")
    url = open_url(FLAGS.publish) if FLAGS.publish else None
    for path in [output, url / "README.md"] if url else [output]:
        _validate_replaceable(path)
    write_bytes(output, card)
    print(f"Wrote {output}.", flush=True)
    if url:
        publish_model(folder, card, url)
        print(f"Published {url}.")


def _validate_replaceable(path):
    with explain_read_errors(path):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
    if _MARKER.encode() not in content:
        raise InputError(
            f"{path} exists and is not of this command; move it elsewhere."
        )


def _read_export(folder):
    if export_directory.read_task(folder) == "parsing":
        raise InputError(f"{folder} has a parser; expected a translator.")
    description = export_directory.read_description(folder)
    last = (description["scores"] or [{}])[-1]
    return description | {
        "languages": export_directory.read_export_languages(description),
        "max_tokens": description["limits"]["max_source_tokens"],
        "runs": [last["training"]] if last.get("training") else [],
        "bytes": export_directory.folder_size(folder),
    }


def _read_directory(folder):
    directory = ModelDirectory(folder)
    model, _, languages = directory.load()
    manifest = _read_json(folder / "data" / "manifest.json")
    runs = _read_json(folder / "training.json").get("runs", [])
    for run in runs:
        run["steps"] = run["last_step"] - run["first_step"]
    paths = [folder / each for each in MODEL_FILES if each != "README.md"]
    return _read_json(directory.run_path) | {
        "languages": languages,
        "configuration": json.loads(model.config.to_json()),
        "train": manifest.get("splits", {}).get("train"),
        "runs": runs,
        "scores": directory.read_scores(),
        "parameters": model.count_params(),
        "bytes": sum(each.stat().st_size for each in paths if each.exists()),
    }


def _read_json(path):
    return json.loads(path.read_bytes()) if path.exists() else {}


def _make_card(records, model):
    """Returns the text; `model` is the path or URL to open the model by."""
    languages, dataset = records["languages"], records.get("dataset")
    longest, config = records.get("max_tokens"), records["configuration"]
    sides = {"source": languages.source, "target": languages.target}
    codes = [each for each in languages.codes or sides.values() if each]
    arguments = "".join(
        f", {side}_language={codes[-(side == 'target')]!r}"
        for side in languages.tag_sides
        if not sides[side]
    )
    name = _clean(pathlib.Path(model).resolve().name)
    results = _hub_results(records["scores"])
    front = {
        # Hugging Face expects codes without country and script.
        "language": [*dict.fromkeys(base_code(_clean(each)) for each in codes)],
        "license": FLAGS.license,
        "library_name": "keras",
        "pipeline_tag": "translation",
        "tags": ["translation", "keras-transformer"],
        "datasets": dataset and [_clean(dataset)],
        "metrics": results and [*_HUB_METRICS.values()],
        "model-index": results and [{"name": name, "results": results}],
    }
    front = {field: value for field, value in front.items() if value}
    header = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    translates = f"from {_code(sides['source'])} to {_code(sides['target'])}"
    if languages.codes:
        translates = f"of the languages {', '.join(map(_code, codes))}"
    pairs, unknown = _describe_pairs(records.get("train"))
    settings = [f"{s}={records[s]}" for s in _DATA_SETTINGS if s in records]
    runs = "\n".join(
        f"- {run['steps']:,} updates in {format_duration(run['seconds'])} on "
        f"{_code(run['hardware'])}, {_code(run['date'])}: "
        f"{_code(run['command'])}"
        for run in records["runs"]
    )
    return f"""---
{header}---
{_MARKER}

# {_code(name)}

A Transformer for Keras 3 that translates text {translates}.

```python
from export import load_translator

translator = load_translator({model!r}{arguments})
print(translator.translate([input("Text: ")])[0].text)
```

## Training data

- Corpus: {_code(dataset)}
- Licence: {_DATA_LICENCES.get(dataset, _UNKNOWN)}
- Pairs: {pairs}
- Cleaning and noise: {", ".join(map(_code, settings)) or _UNKNOWN}

## Training

{runs or f"- Updates, time, hardware: {_UNKNOWN}"}
- Energy: {_UNKNOWN}

## Scores

{_describe_scores(results) or f"- {_UNKNOWN}"}

## Intended use and limits

- Intended for: text like that of {_code(dataset)}
- Characters of the training text that it lacks: {unknown}
- Tokens of a text, in training or of an export: {longest or _UNKNOWN} at most
- Longest translation: {config["max_extra_tokens"]} tokens more than its text
- Size: {records["parameters"]:,} parameters, {records["bytes"]:,} bytes
"""


def _describe_pairs(train):
    """Returns the number of pairs and the unknown characters, as text."""
    if not train:
        return _UNKNOWN, _UNKNOWN
    pairs = sum(shard["num_pairs"] for shard in train["shards"])
    sides = [train[side]["unknown_characters"] for side in ("source", "target")]
    unknown = " ".join(dict.fromkeys("".join(sides)))
    return (
        f"{pairs:,}, of {train['num_read']:,} before cleaning",
        _code(unknown) if unknown else "none",
    )


def _hub_results(scores):
    """Returns the results of Hugging Face's model-index."""
    results = []
    for record in scores:
        # Others are of earlier weights.
        if record.get("step") != scores[-1].get("step"):
            continue
        metrics = []
        for name, score in (record["metric"], record), ("chrF", record["chrf"]):
            args = {key: score[key] for key in _ARGUMENTS if key in score}
            metric = {"type": _HUB_METRICS[name], "value": score["score"]}
            metrics.append(metric | {"name": name, "args": args})
        name, split = _clean(record["dataset"]), _clean(record["split"])
        pair = f"{record['source_language']}-{record['target_language']}"
        data = dict(type=name, name=name, config=_clean(pair), split=split)
        task = {"type": "translation"}
        results.append({"task": task, "dataset": data, "metrics": metrics})
    return results


def _describe_scores(results):
    """Returns the scores of a model-index as a list in Markdown."""
    lines = []
    for result in results:
        data = [result["dataset"][each] for each in ("name", "split", "config")]
        for metric in result["metrics"]:
            args = metric["args"]
            interval = [f"{each:.2f}" for each in args.get("confidence_95", ())]
            lines.append(
                f"- {metric['name']} on {' '.join(map(_code, data))}: "
                f"{metric['value']:.2f}, 95 % interval "
                f"{' to '.join(interval) or _UNKNOWN}, "
                f"signature {_code(args['signature'])}"
            )
    return "\n".join(lines)


def _clean(value):
    """Returns a value as one line of printable text."""
    text = "" if value is None else str(value)
    text = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(text.split())


def _code(value):
    """Returns a value as Markdown's code, without any markup of its own."""
    text = _clean(value)
    if not text:
        return _UNKNOWN
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    command.run(main)
