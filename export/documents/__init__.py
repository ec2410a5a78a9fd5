"""Translates documents: plain text, HTML and XML.

In the order of docs/architecture.md: `scanner` and `roles` find tags and text,
`markup` and `plain_text` make flows of items, in which `placeholder_finder`
finds placeholders; `flow` splits them into sentences, `document` has these
translated; `mark_tree`, `chunks` and `placement` put tags into translations,
and `joints` writes the gaps between them. The translator is an argument:
nothing of `export.translators` is imported.
"""
