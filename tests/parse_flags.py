"""Parses lines of flags as a command would: `python -m tests.parse_flags`.

Of standard input, a list of lists of arguments in JSON, it prints the error of
each, or null.
"""

import importlib
import json
import sys

from absl import flags

_MISSING = "must have a value other than None"


def _parse(arguments):
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    try:
        flags.FLAGS(["program", *arguments])
    except flags.Error as error:
        # What the documents leave out.
        has_gap = any(each.endswith(("...", "…")) for each in arguments)
        if not (has_gap and _MISSING in str(error)):
            return str(error)
    return None


if __name__ == "__main__":
    importlib.import_module(sys.argv[1])
    print(json.dumps([_parse(each) for each in json.load(sys.stdin)]))
