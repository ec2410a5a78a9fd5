"""Constituency parsing: bracketed trees, their symbols, and the parser.

`trees` reads and normalizes nltk trees, `linearization` converts them to
symbols, `word_tokenizer` splits text into words and words into ids; `parser`
finds the best trees, and `tree_formats` prints and draws them.
"""
