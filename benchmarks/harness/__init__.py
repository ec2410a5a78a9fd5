"""What all comparisons share: worker processes, turns, tables.

Systems and a job come in; each system runs in a process of its own, they are
timed in turns, and a Markdown table goes out. It may import export and
trainers, but no other module of benchmarks, and no framework.
"""
