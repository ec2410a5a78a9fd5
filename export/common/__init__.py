"""Errors, command start, paths, atomic files, processes and progress.

It imports no other subpackage.
"""
