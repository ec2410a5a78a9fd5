"""Helpers of all commands: errors, start, files, processes and progress."""
