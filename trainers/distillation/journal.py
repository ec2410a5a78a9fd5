"""`distill.json`: what a distillation was begun with, and which steps are done.

Steps come one after the other, so that what follows on a step that is made
again is made again too.
"""

import json

from export.errors import InputError
from export.files.atomic import remove_unfinished, written_whole
from trainers.corpora.corpus import explain_change

FILE = "distill.json"
_FORMAT = 1


class Journal:
    """The steps that are done in a folder.

    Args:
        folder: pathlib.Path.
        facts: dict of what decides the student, JSON; other facts make
            another one.

    Raises:
        InputError: the folder holds something else, or a distillation that
            was begun with other facts.

    Attributes:
        begun: whether it was there before.
    """

    def __init__(self, folder, facts):
        self._path = folder / FILE
        self._facts = facts
        self.begun = self._path.exists()
        self._done = self._read()

    def is_done(self, number, order):
        """Returns whether the step of this number, from 0, is done.

        Args:
            number: of the step.
            order: what it was to do, a list of str.
        """
        return self._done[number : number + 1] == [order]

    def begin(self, number):
        """Forgets the step of this number and those after it.

        Raises:
            InputError: the system refused to write.
        """
        self._done = self._done[:number]
        self._write()

    def note(self, order):
        """Writes that the step that was begun last is done.

        Args:
            order: what it was to do, a list of str.

        Raises:
            InputError: the system refused to write.
        """
        self._done.append(order)
        self._write()

    def _read(self):
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError("it is of another version of this program")
            before, done = dict(content["facts"]), list(content["done"])
        except FileNotFoundError:
            self._refuse_foreign()
            return []
        except OSError as error:
            raise InputError(
                f"Cannot use {self._path.parent} as --output_dir: "
                f"{error.strerror}."
            ) from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{self._path} does not say how far a distillation is "
                f"({error!r}); give another --output_dir."
            ) from error
        # Before a step is done, the first one itself refuses others.
        for name, value in self._facts.items() if done else ():
            if before.get(name) != value:
                change = f"with {name} {before.get(name)}, not {value}"
                if name == "fingerprint":
                    changed = explain_change(str(before.get(name)), value)
                    change = f"with another {self._facts['dataset']}: {changed}"
                raise InputError(
                    f"{self._path.parent} was begun {change}; put back what "
                    "was there and give the same flags to go on, or give "
                    "another --output_dir."
                )
        return done

    def _refuse_foreign(self):
        folder = self._path.parent
        if folder.exists():
            remove_unfinished(folder, FILE)
            there = sorted(path.name for path in folder.iterdir())
            there = [name for name in there if name != "distillation.lock"]
            if there:
                raise InputError(
                    f"{folder} holds other files, such as {there[0]}; give an "
                    "empty or a new --output_dir."
                )

    def _write(self):
        content = {"format": _FORMAT, "facts": self._facts, "done": self._done}
        with written_whole(self._path) as temporary:
            temporary.write_text(
                json.dumps(content, indent=2, ensure_ascii=False) + "\n",
                encoding="utf-8",
            )
