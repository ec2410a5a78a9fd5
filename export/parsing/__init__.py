"""Parsing: trees in brackets, their symbols, and the trained parser.

`trees` reads and normalises nltk trees, `linear` turns them into symbols,
`penn_tokens` splits raw text into words and `words` those into ids; `parser`
finds the best tree, `tree_lines` prints and draws it, and `tree_text` writes
it inside a graph. They import lines and translators.
"""
