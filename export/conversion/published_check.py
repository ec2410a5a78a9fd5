"""Compares an imported model with published translations."""

import sacrebleu

from export.lines.published import as_published
from export.progress_bar import ProgressBar

# Differing sentences that are printed, and characters of each.
_EXAMPLES, _MAX_CHARACTERS = 3, 200


def compare_with_published(translator, published):
    """Translates a published test set, and compares the translations.

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
    theirs = [text.strip(" ") for text in published.translations]
    differing = [row for row in zip(sources, ours, theirs) if row[1] != row[2]]
    identical = len(ours) - len(differing)
    lines = [
        f"  identical translations  {identical / len(ours):.2%} "
        f"({identical:,} of {len(ours):,})"
    ]
    for name, metric in (
        ("BLEU", sacrebleu.BLEU()),
        ("chrF", sacrebleu.CHRF()),
    ):
        our_score, their_score = (
            metric.corpus_score(texts, [published.references]).score
            for texts in (ours, theirs)
        )
        lines += [
            f"  {name}                    ours {our_score:.2f}, published "
            f"{their_score:.2f} ({our_score - their_score:+.2f})",
            f"                          {metric.get_signature()}",
        ]
    if differing:
        lines.append("The first that differ:")
    for row in differing[:_EXAMPLES]:
        source, our_text, their_text = (text[:_MAX_CHARACTERS] for text in row)
        lines += [
            f"  source     {source}",
            f"  published  {their_text}",
            f"  ours       {our_text}",
        ]
    return [
        *lines,
        "Marian's beam shrinks with each finished translation and ours does "
        "not, so that a few differ in a right import; the scores should not.",
    ]
