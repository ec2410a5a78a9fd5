"""Any text as a table in Markdown."""

import re


def markdown_table(rows):
    """Returns a table of two columns, the first of them headings.

    Args:
        rows: sequence of pairs of str; shown as they are, whatever is in
            them.

    Returns:
        str, Markdown.
    """
    (first, *others) = [" | ".join(map(_plain, row)) for row in rows]
    return "\n".join(
        [f"| {first} |", "|---|---|"] + [f"| {line} |" for line in others]
    )


def _plain(text):
    """Writes punctuation as entities: none of it is Markdown or HTML."""
    text = " ".join(text.split())
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text)
