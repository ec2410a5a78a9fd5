"""Translates documents: plain text, HTML and XML.

`plain_text` and `markup` cut a document into flows of items, `flow` cuts these
into sentences, `placement` puts tags into translations, and `document` does
all of it. The translator is an argument: nothing of `export.translators` is
imported, whose classes have the method `translate_document`.
"""
