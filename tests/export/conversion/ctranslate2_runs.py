"""Runs export.ctranslate2 many times in one process of its own.

usage: python -m tests.export.conversion.ctranslate2_runs \
    '[["--flag=x"], ...]'

It prints a JSON list: of each run the message of its InputError, or None.
"""

import importlib.util
import json
import sys

from absl import flags
from absl.testing import flagsaver

from export import ctranslate2
from export.errors import InputError


def main(runs):
    find = importlib.util.find_spec
    messages = []
    for arguments in runs:
        if "without the package" in arguments:
            arguments.remove("without the package")
            importlib.util.find_spec = lambda name: None
        with flagsaver.flagsaver():
            flags.FLAGS(["ctranslate2", *arguments])
            try:
                ctranslate2.main([])
            except InputError as error:
                messages.append(str(error))
            else:
                messages.append(None)
        importlib.util.find_spec = find
    print(json.dumps(messages))


main(json.loads(sys.argv[1]))
