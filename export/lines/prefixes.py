"""Lines of prefixes: which are refused, and which are taken otherwise."""

import sys

from export.errors import InputError

# Prefixes that are taken otherwise: how many are told, and so much of each.
_TOLD, _SHORT = 3, 30


class UnknownCharacter(ValueError):
    """A prefix has what no translation can begin with.

    Attributes:
        place: of the prefix in its list, from 0.
        character: str, the first of which the vocabulary has no piece.

    Args:
        place: see above.
        character: see above.
    """

    def __init__(self, place, character):
        super().__init__(
            f"prefixes[{place}] has {character!r} (U+{ord(character):04X}), "
            "of which the vocabulary has no piece; leave it out."
        )
        self.place = place
        self.character = character


class PrefixLines:
    """Translates lines with their prefixes, and notes how those are spelt.

    Args:
        translator: PrefixTranslator.
        n: how many translations of each line.
    """

    def __init__(self, translator, n):
        self._translator = translator
        self._n = n
        self._lines = 0
        self._first_changed, self._changed = [], 0

    def ask(self, pairs, on_progress):
        """Returns translations, as `PrefixTranslator.n_best_after` does.

        Args:
            pairs: list of (line, prefix), those that come next.
            on_progress: function of the number of sentences just done.

        Raises:
            InputError: a prefix has a character without a piece.
        """
        texts, prefixes = map(list, zip(*pairs))
        try:
            spelt = self._translator.as_spelt(prefixes)
        except UnknownCharacter as error:
            code = f"U+{ord(error.character):04X}"
            raise InputError(
                f"Line {self._lines + error.place + 1} of --prefixes has "
                f"{error.character!r} ({code}), of which the model's "
                "vocabulary has no piece; leave it out, or write it otherwise."
            ) from None
        for line, (given, read) in enumerate(zip(prefixes, spelt)):
            if given != read:
                self._note(self._lines + line + 1, given, read)
        self._lines += len(pairs)
        return self._translator.n_best_after(
            texts, prefixes, self._n, on_progress
        )

    def tell(self):
        """Says on standard error which prefixes were taken otherwise."""
        more = self._changed - len(self._first_changed)
        if self._changed:
            print(
                f"Taken as the vocabulary spells them: {self._changed:,} of "
                f"the prefixes ({', '.join(self._first_changed)}"
                + (f" and {more:,} more)." if more else ")."),
                file=sys.stderr,
                flush=True,
            )

    def _note(self, line, given, read):
        self._changed += 1
        if len(self._first_changed) < _TOLD:
            short = [repr(_shortened(text)) for text in (given, read)]
            told = f"line {line}: {' as '.join(short)}"
            self._first_changed.append(told)


def _shortened(text):
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
