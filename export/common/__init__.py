"""Helpers of all commands: errors, start, files, processes and progress.

It imports no other subpackage.
"""
