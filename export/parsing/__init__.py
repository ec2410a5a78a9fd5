"""Parsing: trees in brackets, their symbols, and the trained parser.

`trees` reads and normalises nltk trees, `linearization` turns them into
symbols, `penn_tokenizer` splits raw text into words and `word_tokenizer` those
into ids; `parser` finds the best tree, `tree_formats` prints and draws it, and
`tree_writer` writes it inside a graph. They import lines and translators.
"""
