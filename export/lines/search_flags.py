"""The flag --stop of the commands that search or fix a search."""

from absl import flags

# None is what SearchRules says: certain.
flags.DEFINE_enum(
    "stop",
    None,
    ["certain", "finished"],
    "When a sentence ends: as soon as its result is certain (the default), or "
    "with as many finished translations as there are beams, which is sooner "
    "and may miss a better one.",
)
