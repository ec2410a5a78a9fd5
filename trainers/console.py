"""The console command `keras-translation`: all commands under one name."""

import ast
import os
import pathlib
import re
import signal
import subprocess
import sys
import typing

from export.common.packages import DISTRIBUTION, EXIT_INPUT_ERROR

# Names of the console, where it is not the last of the module's.
_NAMES = {"trainers.wmt": "train", "export.saved_model": "export"}
_PACKAGES = "trainers", "export"
_ROOT = pathlib.Path(__file__).parents[1]
_USAGE = """keras-translation COMMAND [FLAGS]

keras-translation COMMAND --help    the flags of a command
keras-translation --version         the version
keras-translation --completion      a script for bash, for ~/.bashrc or a file
                                    of /etc/bash_completion.d; takes a minute

Commands:
"""
_COMPLETION = """_keras_translation() {{
  local words
  if [ "$COMP_CWORD" = 1 ]; then words="{commands}"; else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -o default -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o nospace -F _keras_translation keras-translation
"""


def main() -> None:
    """Runs the command that the first argument names."""
    # Ends without a traceback where the output is cut off, as by head.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    commands = find_commands()
    name, *arguments = sys.argv[1:] or ["--help"]
    if name == "--version":
        from keras_transformer import __version__

        print(f"{DISTRIBUTION} {__version__}")
    elif name == "--completion":
        print(_completion(commands), end="")
    elif name in ("--help", "-h"):
        print(_USAGE, end="")
        for each, (_, summary) in sorted(commands.items()):
            print(f"  {each:<15} {summary}")
    elif name in commands:
        module, _ = commands[name]
        # Not in this process: a module reads how Python was started.
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
    else:
        print(
            f"Error: There is no command {name}; expected one of "
            f"{', '.join(sorted(commands))}.",
            file=sys.stderr,
        )
        sys.exit(EXIT_INPUT_ERROR)


def find_commands() -> dict[str, tuple[str, str]]:
    """Returns {name: (module, summary)} of all commands, unimported."""
    commands = {}
    for package in _PACKAGES:
        folder = _ROOT / package
        for path in [*folder.glob("*.py"), *folder.glob("*/__main__.py")]:
            text = path.read_text(encoding="utf-8")
            if "\n    command.run(main" in text:
                is_file = path.stem != "__main__"
                stem = path.stem if is_file else path.parent.stem
                module = f"{package}.{stem}"
                docstring: typing.Any = ast.get_docstring(ast.parse(text))
                summary = docstring.partition("\n")[0]
                summary = re.sub(r":? ?`python -m.*", "", summary)
                name = _NAMES.get(module, stem.replace("_", "-"))
                commands[name] = module, summary.rstrip(".")
    return commands


def _completion(commands):
    """Returns a bash function; starts each command once for its flags."""
    cases = []
    for name, (module, _) in sorted(commands.items()):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"],
            capture_output=True,
            text=True,
        )
        flags = re.findall(r"^ +--(?:\[no\])?(\w+):", done.stdout, re.MULTILINE)
        words = " ".join(f"--{flag}" for flag in flags)
        cases.append(f'      {name}) words="{words}" ;;')
    return _COMPLETION.format(
        commands=" ".join(sorted(commands)), cases="\n".join(cases)
    )


if __name__ == "__main__":
    main()
