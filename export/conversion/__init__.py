"""Other programs' formats for the same weights.

A Transformer and its vocabulary come in, another program's folder goes out.
This room imports what translators share.
"""
