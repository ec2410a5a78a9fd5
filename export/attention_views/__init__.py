"""The attention of a model as an HTML page or an SVG picture.

`reader` reads the weights from a translator, `word_attention` merges those of
words, `view` selects layer and heads, and `rendering` draws them; `page/` holds
the page's files.
"""
