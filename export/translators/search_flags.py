"""Flags that several commands share: search, sampling, output vocabulary.

The functions define_* define flags for the module that calls them.
"""

import typing
from collections.abc import Iterable

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.terms.terms import Terms
from export.translators.batches import BATCH_TOKENS
from export.translators.reranking import (
    Reranker,
    rerank_by_command,
    rerank_by_mbr,
)

if typing.TYPE_CHECKING:
    from export.translators.translator import Translator

# Copied from keras_transformer, which takes seconds to import.
MAX_BEAMS, MAX_EXTRA_TOKENS = 1_000, 100_000
MIN_ALPHA, MAX_ALPHA = -1.0, 8.0
MAX_REPETITION_PENALTY = 100.0
STOP_CRITERIA = ("exact", "k_finished", "heuristic")

SEARCH = (
    *("beam_size", "alpha", "max_extra_tokens", "stop_criterion"),
    *("no_repeat_ngram_size", "retry_ngram_size", "repetition_penalty"),
)
SAMPLING = ("temperature", "top_k", "top_p")
SHORTLIST = ("shortlist", "shortlist_size")
LANGUAGES = ("source_language", "target_language")
MODEL_SEARCH = (*SEARCH, *SHORTLIST, "target_pieces", "quantization")

FLAGS = flags.FLAGS
# --help shows the flags under the module that calls a function.
flags.disclaim_key_flags()


def read_given_flags(names: Iterable[str]) -> dict[str, typing.Any]:
    """Returns the values of the flags that are set, by name."""
    values = {name: FLAGS[name].value for name in names}
    return {name: each for name, each in values.items() if each is not None}


def define_folders() -> None:
    """Defines --model_dir and --output_dir, of commands that convert."""
    flags.DEFINE_string(
        "model_dir", None, "The model directory.", required=True
    )
    flags.DEFINE_string(
        "output_dir", None, "New folder to write.", required=True
    )


def define_beam_size() -> None:
    """Defines --beam_size."""
    flags.DEFINE_integer(
        "beam_size",
        None,
        "Number of beams, and maximum number of results of a sentence; the "
        "model's own by default.",
        lower_bound=1,
        upper_bound=MAX_BEAMS,
    )


def define_max_extra_tokens() -> None:
    """Defines --max_extra_tokens."""
    flags.DEFINE_integer(
        "max_extra_tokens",
        None,
        "Maximum number of tokens of a translation beyond those of its source; "
        "the model's own by default.",
        lower_bound=0,
        upper_bound=MAX_EXTRA_TOKENS,
    )


def define_search() -> None:
    """Defines the flags in SEARCH."""
    define_beam_size()
    define_max_extra_tokens()
    flags.DEFINE_float(
        "alpha",
        None,
        "Exponent of the length penalty; the model's own by default.",
        lower_bound=MIN_ALPHA,
        upper_bound=MAX_ALPHA,
    )
    flags.DEFINE_enum(
        "stop_criterion",
        None,
        STOP_CRITERIA,
        "When the search of a sentence stops. exact: as soon as its result is "
        "certain. k_finished: with as many finished translations as beams, "
        "faster, but it may miss a better one. heuristic: when no unfinished "
        "one, at its present length, beats the worst of these, as in Hugging "
        "Face transformers. The model's own by default.",
    )
    flags.DEFINE_integer(
        "no_repeat_ngram_size",
        None,
        "Number of tokens of which no sequence occurs twice in a translation; "
        "0 for any; the model's own by default.",
        lower_bound=0,
        upper_bound=MAX_EXTRA_TOKENS,
    )
    flags.DEFINE_integer(
        "retry_ngram_size",
        None,
        "Searches again, without repetition, where a translation repeats this "
        "many tokens more often than its source any; 0 for one search; the "
        "model's own by default.",
        lower_bound=0,
        upper_bound=MAX_EXTRA_TOKENS,
    )
    flags.DEFINE_float(
        "repetition_penalty",
        None,
        "Factor of the log-probability of tokens that a translation has "
        "already; 1 for none; the model's own by default.",
        lower_bound=1e-30,
        upper_bound=MAX_REPETITION_PENALTY,
    )
    command.mark_flags_as_finite("alpha", "repetition_penalty")


def define_sampling() -> None:
    """Defines the flags in SAMPLING."""
    flags.DEFINE_float(
        "temperature",
        1.0,
        "Divisor of the logits; below 1 likelier tokens are drawn more often.",
        lower_bound=1e-4,
        upper_bound=1e30,
    )
    flags.DEFINE_integer(
        "top_k",
        0,
        "Number of likeliest tokens to draw from; 0 for all.",
        lower_bound=0,
        upper_bound=2**31 - 1,
    )
    flags.DEFINE_float(
        "top_p",
        1.0,
        "Draw from the likeliest tokens that together have this probability.",
        lower_bound=1e-4,
        upper_bound=1.0,
    )
    command.mark_flags_as_finite("temperature", "top_p")


def define_target_pieces() -> None:
    """Defines --target_pieces."""
    flags.DEFINE_multi_string(
        "target_pieces",
        None,
        "File of sentences of the target language, one per line, plain or .gz, "
        "such as that side of the training data; may be repeated. "
        "Translations have only its tokens and single characters.",
    )


def define_shortlist() -> None:
    """Defines the flags in SHORTLIST."""
    flags.DEFINE_string(
        "shortlist",
        None,
        "File of trainers.shortlist with the likeliest translations of each "
        "source token: only those of a sentence's tokens are generated.",
    )
    flags.DEFINE_integer(
        "shortlist_size",
        None,
        "Number of tokens in a sentence's shortlist; 1024 by default.",
        lower_bound=5,
    )


def define_quantization() -> None:
    """Defines --quantization."""
    flags.DEFINE_enum(
        "quantization",
        None,
        ["int8"],
        "Type of the weights and of products with them: int8, or float32 if "
        "unset. int8 is faster on processors with VNNI or AMX and a quarter of "
        "the size; some translations differ.",
    )


def define_model_search() -> None:
    """Defines the flags in MODEL_SEARCH."""
    define_search()
    define_target_pieces()
    define_shortlist()
    define_quantization()


def define_languages() -> None:
    """Defines the flags in LANGUAGES."""
    for name, role in zip(LANGUAGES, ("the texts", "the translations")):
        flags.DEFINE_string(
            name,
            None,
            f"Language of {role}, for a model of several languages: its code, "
            "such as fra or fra_Latn; by default that of the model directory.",
        )


def select_languages(translator: "Translator") -> "Translator":
    """Returns a Translator for the flags in LANGUAGES."""
    return translator.for_languages(*(FLAGS[name].value for name in LANGUAGES))


def define_ensemble_mean() -> None:
    """Defines --ensemble_mean."""
    flags.DEFINE_enum(
        "ensemble_mean",
        None,
        ["log_probabilities", "probabilities"],
        "What an ensemble averages at each step; log-probabilities by default.",
    )


def define_reranking() -> None:
    """Defines the flags of `read_reranking`."""
    flags.DEFINE_enum(
        "rerank",
        None,
        ["mbr"],
        "Write the translation, of all that the search or sampling finds, that "
        "is most like the others by chrF (minimum Bayes risk).",
    )
    flags.DEFINE_string(
        "rerank_command",
        None,
        "Write the translation that a program scores highest: it reads lines "
        "of text TAB translation, and writes a number for each.",
    )


def read_reranking() -> Reranker | None:
    """Returns the function of --rerank or --rerank_command, or None."""
    if FLAGS.rerank and FLAGS.rerank_command:
        raise InputError(
            "--rerank and --rerank_command choose differently: omit one of "
            "them."
        )
    if FLAGS.rerank_command:
        return rerank_by_command(FLAGS.rerank_command)
    return rerank_by_mbr if FLAGS.rerank else None


def define_terms() -> None:
    """Defines the flags of `read_terms`."""
    flags.DEFINE_string(
        "terms",
        None,
        "File of terms, a line each: source TAB translation. Where a source "
        "has a term, its translation has that of the term. Variants of either "
        'are separated by "|".',
    )
    flags.DEFINE_list(
        "keep",
        [],
        "What translations contain as it is in the text, separated by commas: "
        "urls (also mail addresses), emoji, numbers, placeholders, and rare, "
        "words with characters that the vocabulary spells as bytes. See "
        "docs/characters.md.",
    )
    flags.DEFINE_multi_string(
        "placeholder",
        [],
        "Regular expression of Python for one more kind of placeholder, in "
        "documents and for --keep=placeholders; may be repeated. See "
        "docs/documents.md.",
    )


def read_terms() -> Terms | None:
    """Returns the Terms of --terms, --keep and --placeholder, or None."""
    if FLAGS.terms:
        return Terms.from_file(FLAGS.terms, FLAGS.keep, FLAGS.placeholder)
    if FLAGS.keep or FLAGS.placeholder:
        return Terms(keep=FLAGS.keep, placeholders=FLAGS.placeholder)
    return None


def define_batch_tokens() -> None:
    """Defines --batch_tokens."""
    flags.DEFINE_integer(
        "batch_tokens",
        BATCH_TOKENS,
        "Source tokens in a batch, padding included. More are faster, up to a "
        "point, and take more memory.",
        lower_bound=1,
    )
