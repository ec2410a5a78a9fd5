"""The flags of commands that search, or fix a search for an export."""

from absl import flags

from export.common import command
from export.translators.text_ids import MAX_ALPHA, MAX_BEAMS, MAX_EXTRA

FLAGS = flags.FLAGS

# None is what the model's configuration, or BeamSearchConfig, says.
flags.DEFINE_integer(
    "beam_size",
    None,
    "Beams, and the most translations of a sentence; the model's own by "
    "default.",
    lower_bound=1,
    upper_bound=MAX_BEAMS,
)
flags.DEFINE_float(
    "alpha",
    None,
    "Exponent of the length penalty; the model's own by default.",
    lower_bound=0.0,
    upper_bound=MAX_ALPHA,
)
flags.DEFINE_integer(
    "max_output_extra",
    None,
    "Pieces that a translation may have more than its source; the model's own "
    "number by default.",
    lower_bound=0,
    upper_bound=MAX_EXTRA,
)
flags.DEFINE_enum(
    "stop",
    None,
    ["exact", "k_finished", "heuristic"],
    "When a sentence ends: as soon as its result is certain; with as many "
    "finished translations as there are beams, which is faster and may miss a "
    "better one; or when no unfinished one, at its present length, beats the "
    "last of these, as in Hugging Face transformers. The configuration's own "
    "by default, which is exact unless it was set.",
)
command.require_finite("alpha")

NAMES = ("beam_size", "alpha", "max_output_extra", "stop")


def given(*more):
    """Returns a dict of the search flags that were given.

    Args:
        *more: names of further flags.
    """
    values = {name: FLAGS[name].value for name in (*NAMES, *more)}
    return {name: each for name, each in values.items() if each is not None}
