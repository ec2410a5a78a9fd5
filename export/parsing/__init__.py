"""Constituency parsing: bracketed trees, their symbols, and the parser.

`trees` reads and normalises nltk trees, `linearization` converts them to
symbols, `penn_tokenizer` splits raw text into words and `word_tokenizer` words
into ids; `parser` finds the best tree, `tree_formats` prints and draws it, and
`tree_writer` writes it inside a TensorFlow graph.
"""
