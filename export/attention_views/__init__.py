"""What a model attends to, as an HTML page or an SVG picture.

`reader` gets the weights from a translator; all else is numpy and text. The
page's own files lie in `page/`. This room imports translators.
"""
