"""Pages made of scores: results, and Table 3 beside the paper's.

Entries of scores.json come in, Markdown and CSV go out. This room imports no
other.
"""
