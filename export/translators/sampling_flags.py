"""The flags of commands that draw translations."""

from absl import flags

from export.common import command

flags.DEFINE_float(
    "temperature",
    1.0,
    "Logits are divided by it: below 1 likelier pieces are drawn more often.",
    lower_bound=1e-4,
)
flags.DEFINE_integer(
    "top_k",
    0,
    "Draw from the likeliest pieces alone; 0 for all.",
    lower_bound=0,
)
flags.DEFINE_float(
    "top_p",
    1.0,
    "Draw from the likeliest pieces that together have this probability.",
    lower_bound=1e-4,
    upper_bound=1.0,
)
command.require_finite("temperature", "top_p")

NAMES = ("temperature", "top_k", "top_p")
