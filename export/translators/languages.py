"""The languages of a model, and the tags in its sources that name them."""

import difflib
import re
import typing

from export.common.errors import InputError
from export.tokenizers.tags import split_tags, tag_pattern

if typing.TYPE_CHECKING:
    from export.tokenizers.pretrained_tokenizers import TokenizerPair
    from export.tokenizers.python_tokenizers import PythonTokenizerPair
    from export.tokenizers.tokenizer import Tokenizer

    Tokenizers: typing.TypeAlias = (
        Tokenizer | TokenizerPair | PythonTokenizerPair
    )

# The code of ISO 639-2 for several languages, those of a mixture.
SEVERAL_LANGUAGES = "mul"
_NUM_EXAMPLES = 5


def base_code(language: str) -> str:
    """Returns the language of a code with a country or script: pt of pt_BR."""
    return re.split("[-_]", language)[0].lower()


class Languages(typing.NamedTuple):
    """The languages of a model, and those of its texts.

    Attributes:
        codes: tuple of the codes that tags may have; () for a model of one
            pair of languages, and if unknown.
        num_tags: number of tags of a source: 1 for the target's language, as
            in Marian, 2 for both, as in M2M-100 and NLLB-200.
        source: code of the source's language, None if unknown.
        target: code of the target's language, None if unknown.
    """

    codes: tuple[str, ...] = ()
    num_tags: int = 0
    source: str | None = None
    target: str | None = None

    @property
    def tag_sides(self) -> tuple[str, ...]:
        """The sides that tags name: (), ("target",), ("source", "target")."""
        return ("source", "target")[2 - self.num_tags :]

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: "Tokenizers",
        source: str | None = None,
        target: str | None = None,
    ) -> typing.Self:
        """Returns those of a vocabulary, by default for these two."""
        codes, num_tags = tokenizer.source.languages, tokenizer.source.num_tags
        if len(codes) < 2:
            codes, num_tags = (), 0
        return cls(codes, num_tags, source, target)

    @classmethod
    def from_directory(
        cls, directory: typing.Any, tokenizer: "Tokenizers"
    ) -> typing.Self:
        """Returns those of a ModelDirectory, whose Tokenizer is given."""
        codes = directory.read_languages()
        return cls.from_tokenizer(
            tokenizer,
            *(None if each == SEVERAL_LANGUAGES else each for each in codes),
        )

    def select(
        self, source: str | None = None, target: str | None = None
    ) -> typing.Self:
        """Returns a copy for texts of other languages; None for no change.

        Case and "_" instead of "-" do not matter, as in BCP 47. Raises
        InputError for a language that the model lacks.
        """
        source, target = map(self._find_spelling, (source, target))
        for name, code in ("source", source), ("target", target):
            own, is_tag = getattr(self, name), name in self.tag_sides
            if code is None or code == own or is_tag and code in self.codes:
                continue
            # It only decides where sentences of a document end.
            if name == "source" and not is_tag and own is None:
                continue
            if not is_tag:
                problem = (
                    f"is {own}, not {code}" if own else "is not selectable"
                )
                raise InputError(
                    f"The model's {name} language {problem}: omit {code} as "
                    f"{name}_language, or give another model."
                )
            raise self._missing_error(code)
        return self._replace(
            source=source or self.source, target=target or self.target
        )

    def _find_spelling(self, code):
        """Returns a code as the model spells it, or as it is."""
        known = (self.source, self.target, *self.codes)
        if code is None or code in known:
            return code
        spellings = {_fold(each): each for each in known if each}
        return spellings.get(_fold(code), code)

    def tag(self, text: str) -> str:
        """Returns a text with the tags of its languages.

        Tags that it begins with stay; of two, a single one is the target's.
        Raises InputError if a language is unknown.
        """
        if not self.num_tags or not text.strip():
            return text
        given, _ = self.split(text)
        # Without a space, so that words keep their numbers.
        return "".join([*self.tags(self.num_tags - len(given)), text])

    def split(self, text: str) -> tuple[list[str], str]:
        """Returns the tags that a text begins with, and the rest.

        What looks like a tag, but has no code of the model, is text.
        """
        return split_tags(text, self.num_tags, tag_pattern(self.codes))

    def for_text(self, text: str) -> tuple[typing.Self, str]:
        """Returns a copy for the tags that a text begins with, and the rest."""
        tags, rest = self.split(text)
        codes = [self.source, self.target][: 2 - len(tags)]
        source, target = *codes, *(tag[2:-2] for tag in tags)  # type: ignore[misc]
        return self._replace(source=source, target=target), rest

    def tags(self, count: int | None = None) -> list[str]:
        """Returns the first `count` tags of a text; None for all of them.

        Raises InputError if a language is unknown.
        """
        tags = []
        for name in self.tag_sides[:count]:
            code = getattr(self, name)
            if code is not None and self.codes and code not in self.codes:
                raise self._missing_error(code)
            if code is None:
                raise InputError(
                    f"The model has {len(self.codes)} languages: give "
                    f"{name}_language, such as {self._examples()}."
                )
            tags.append(f">>{code}<<")
        return tags

    def _missing_error(self, code):
        return InputError(
            f"The model lacks the language {code}; it has "
            f"{self._examples(code)}."
        )

    def _examples(self, code=""):
        """Returns some codes, close to a given one, as text."""
        close = difflib.get_close_matches(code, self.codes, _NUM_EXAMPLES, 0.4)
        same_start = [each for each in self.codes if each[:2] == code[:2]]
        close = same_start + close if code else []
        examples = [*dict.fromkeys(close or self.codes)][:_NUM_EXAMPLES]
        others = len(self.codes) - len(examples)
        return ", ".join(examples) + (f" and {others} more" if others else "")


def _fold(code):
    """Returns what all spellings of a language's code have in common."""
    return code.lower().replace("_", "-")
