"""What is particular to `decode.py`, and the wide model of `widened.py`.

A model directory and sentences come in; each system gets the same weights in
its own format, and how long translating took goes out. This room imports
harness; what a worker needs of it imports no framework.
"""
