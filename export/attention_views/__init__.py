"""Attention of a model as an HTML page or an SVG picture.

`reader` gets the weights from a translator; the rest is NumPy and text, and
`page/` holds the files of the page. They import translators.
"""
