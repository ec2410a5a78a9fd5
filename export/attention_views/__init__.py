"""The attention of a model as an HTML page or an SVG picture.

`reader` reads the weights from a translator; `page/` holds the page's files.
"""
