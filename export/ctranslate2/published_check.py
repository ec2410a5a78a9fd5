"""Compares an imported model with published translations."""

import sacrebleu

from export.common.progress_bar import ProgressBar
from export.lines.published import as_published

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
        translations = translator.translate(sources, bar.update)
    outputs = [as_published(each.text) for each in translations]
    expected = [text.strip(" ") for text in published.translations]
    rows = [*zip(sources, expected, outputs)]
    differing = [row for row in rows if row[1] != row[2]]
    identical = len(rows) - len(differing)
    lines = [
        f"  identical translations  {identical / len(rows):.2%} "
        f"({identical:,} of {len(rows):,})"
    ]
    for name, metric in (
        ("BLEU", sacrebleu.BLEU()),
        ("chrF", sacrebleu.CHRF()),
    ):
        imported_score, published_score = (
            metric.corpus_score(texts, [published.references]).score
            for texts in (outputs, expected)
        )
        lines += [
            f"  {name}                    imported {imported_score:.2f}, "
            f"published {published_score:.2f} "
            f"({imported_score - published_score:+.2f})",
            f"                          {metric.get_signature()}",
        ]
    if differing:
        lines.append("The first that differ:")
    for row in differing[:_EXAMPLES]:
        for name, text in zip(("source", "published", "imported"), row):
            lines.append(f"  {name:<9}  {text[:_MAX_CHARACTERS]}")
    return [
        *lines,
        "Marian's beam shrinks with each finished translation and that of "
        "export.translate does not, so that a few differ in a right import; "
        "the scores should not.",
    ]
