"""How far an imported model agrees with what was published of it."""

from export.lines.published import as_published
from export.progress_bar import ProgressBar

# Sentences of which is told what differs, and how much of each.
_TOLD, _LONGEST = 3, 200


def compared(translator, published):
    """Translates a published test set, and says how it compares.

    Args:
        translator: Translator.
        published: `export.lines.published.Published`.

    Returns:
        A list of str, lines to print.
    """
    sources = published.sources
    with ProgressBar("Translating", len(sources), "sentences") as bar:
        found = translator.translate(sources, bar.update)
    ours = [as_published(each.text) for each in found]
    theirs = [each.strip(" ") for each in published.translations]
    identical = sum(our == their for our, their in zip(ours, theirs))
    return [
        f"  identical translations  {identical / len(ours):.2%} "
        f"({identical:,} of {len(ours):,})",
        *_scores(ours, theirs, published.references),
        *_differing(sources, ours, theirs),
        "Marian's beam shrinks with each finished translation and ours does "
        "not, so that a few differ in a right import; the scores should not.",
    ]


def _scores(ours, theirs, references):
    import sacrebleu

    lines = []
    for name, metric in (
        ("BLEU", sacrebleu.BLEU()),
        ("chrF", sacrebleu.CHRF()),
    ):
        of_ours, of_theirs = (
            metric.corpus_score(each, [references]).score
            for each in (ours, theirs)
        )
        lines += [
            f"  {name}                    ours {of_ours:.2f}, published "
            f"{of_theirs:.2f} ({of_ours - of_theirs:+.2f})",
            f"                          {metric.get_signature()}",
        ]
    return lines


def _differing(sources, ours, theirs):
    lines = []
    for row in zip(sources, ours, theirs):
        source, our, their = (each[:_LONGEST] for each in row)
        if row[1] != row[2] and len(lines) < 3 * _TOLD:
            lines += [
                f"  source     {source}",
                f"  published  {their}",
                f"  ours       {our}",
            ]
    return ["The first that differ:", *lines] if lines else []
