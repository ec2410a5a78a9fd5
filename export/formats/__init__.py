"""Files as people have them: office files, subtitles, catalogs, tables.

`file_format` has what a module for a format returns, `files` finds the format
of a file and translates it. A module is imported when a file needs it.
"""
