"""Every command, given what is not what its flags ask for."""

import os
import pathlib
import pkgutil

import pytest

import export
import trainers
from tests import made_up_text, processes
from tests.export import tiny

# Of each command: what it needs, and its flags of files, folders and those
# that it writes.
_LINES = {"input": "file", "output": "new file"}
_TEXT = "--dataset=text:toy --source_language=en --target_language=xx"
COMMANDS = {
    "export.attention": (
        "--model=m --text=ba",
        {"model": "folder", "output": "new file", "svg": "new file"},
    ),
    "export.check": ("e", {"model_dir": "folder"}),
    "export.client": ("--url=http://localhost:1 --retries=0", _LINES),
    "export.ctranslate2": (
        "--model_dir=m --output_dir=new",
        {
            "model_dir": "folder",
            "output_dir": "new folder",
            "compare": "file",
            "target_pieces": "file",
        },
    ),
    "export.import_marian": (
        "--hf=m --model_dir=new",
        {"hf": "folder", "model_dir": "new folder", "check": "file"},
    ),
    "export.keras_hub": (
        "--model_dir=m --preset=new",
        {"model_dir": "folder", "preset": "new folder"},
    ),
    "export.marian": (
        "--model_dir=m --output_dir=new",
        {"model_dir": "folder", "output_dir": "new folder"},
    ),
    "export.parse": ("--model=m", {"model": "folder", **_LINES}),
    "export.sample": ("--model=m", {"model": "folder", **_LINES}),
    "export.saved_model": (
        "--model_dir=m --export_dir=new --nocheck",
        {
            "model_dir": "folder",
            "export_dir": "new folder",
            "target_pieces": "file",
            "shortlist": "file",
        },
    ),
    "export.score": (
        "--model=m --translations=text",
        {"model": "folder", "translations": "file", **_LINES},
    ),
    "export.translate": (
        "--model=m",
        {
            "model": "folder",
            "prefixes": "file",
            "target_pieces": "file",
            "shortlist": "file",
            **_LINES,
        },
    ),
    "trainers.distill": (
        f"--teacher=m --output_dir=new {_TEXT}",
        {"teacher": "folder", "output_dir": "new folder"},
    ),
    "trainers.evaluate": (
        f"--model_dir=m {_TEXT}",
        {
            "model_dir": "folder",
            "references": "file",
            "output": "new file",
            "dataset": "prefix",
        },
    ),
    "trainers.parsing": (
        "--dataset=trees:toy --model_dir=new",
        {
            "model_dir": "new folder",
            "init_from": "folder",
            "prepared_dir": "folder",
            "dataset": "prefix",
        },
    ),
    "trainers.plan": ("--pairs=9", {"prepared_dir": "folder"}),
    "trainers.prepare": (
        f"{_TEXT} --output_dir=new --vocabulary_size=64",
        {
            "output_dir": "new folder",
            "vocabulary": "file",
            "symbols": "file",
            "dataset": "prefix",
        },
    ),
    "trainers.results": (
        "--scores=m",
        {"scores": "file", "output": "new file"},
    ),
    "trainers.shortlist": (
        "--model=m --input=text --translations=text --output=new",
        {
            "model": "folder",
            "translations": "file",
            **_LINES,
        },
    ),
    "trainers.synthesize": (
        "--model=m --text=text --source_language=en --target_language=xx "
        "--output_dir=new --workers=1",
        {"model": "folder", "text": "file", "output_dir": "new folder"},
    ),
    "trainers.table3": (
        f"{_TEXT} --output_dir=new --rows=base --train_steps=1",
        {"output_dir": "new folder", "dataset": "prefix"},
    ),
    "trainers.wmt": (
        f"{_TEXT} --model_dir=new --train_steps=1",
        {
            "model_dir": "new folder",
            "init_from": "folder",
            "init_layers_from": "folder",
            "prepared_dir": "folder",
            "vocabulary": "file",
            "dataset": "prefix",
        },
    ),
}
