"""The flags of commands whose searches may be held to shortlists."""

from absl import flags

from export.translators.shortlist import SIZE

flags.DEFINE_string(
    "shortlist",
    None,
    "File of which pieces each source piece may become, as trainers.shortlist "
    "writes it. A step then multiplies by those of the sentence alone; longer "
    "sentences share the same number of them.",
)
flags.DEFINE_integer(
    "shortlist_size",
    None,
    f"Pieces of each sentence's list, {SIZE} by default.",
    lower_bound=5,
)
