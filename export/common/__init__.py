"""Errors, start of commands, paths and URLs, atomic files, processes, progress.

It imports no other subpackage.
"""
