"""Flags for normalization and unknown pieces."""

from absl import flags

from export.common import command
from trainers.data.normalization import NORMALIZATIONS
from trainers.data.preparation import MAX_UNKNOWN

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "normalization",
    "auto",
    NORMALIZATIONS,
    "How the text is normalised before a vocabulary is trained on it; the "
    "vocabulary keeps it. auto is nmt_nfkc, or nmt_nfc where that would "
    "change more than a few characters of the text. See docs/data.md.",
)
flags.DEFINE_float(
    "max_unknown",
    MAX_UNKNOWN,
    "Highest share of a side's pieces in a split that may be unknown to the "
    "vocabulary; 1 takes any text.",
    lower_bound=0.0,
    upper_bound=1.0,
)
command.require_finite("max_unknown")
