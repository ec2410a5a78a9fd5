"""What all comparisons share: processes, turns, products, tables.

A table of systems and a job come in; each system waits in a process of its
own, they are visited in turns, and a Markdown table goes out. This room
imports no other of benchmarks, and no framework.
"""
