"""Translates documents: plain text, HTML and XML.

In the order of docs/architecture.md: `scanner` and `roles` find tags and text,
`markup` and `plain_text` make flows of items, in which `placeholder_finder`
finds placeholders; `flow` splits them into sentences, `document` has these
translated, and `mark_tree`, `chunks` and `placement` put the tags into
translations, `joints` what is between. The translator is an argument: nothing
of `export.translators` is imported.
"""
