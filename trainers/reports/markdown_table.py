"""Markdown tables."""


def markdown_table(header, rows, text_columns=None):
    """Returns an aligned Markdown table of str.

    `text_columns` are the indices of the left-aligned columns, by default all;
    the others are right-aligned.
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = set()
    if text_columns is not None:
        numeric = set(range(len(header))) - set(text_columns)

    def line(cells):
        padded = [
            cell.rjust(width) if index in numeric else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if index in numeric else "-" * width
        for index, width in enumerate(widths)
    ]
    return "\n".join(map(line, [header, rule, *rows]))
