"""Files and folders: where they are, and that they are whole or not there.

This room imports no other but the errors.
"""
