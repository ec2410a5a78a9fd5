"""What is particular to `train_step.py`.

Lengths of sentence pairs come in, batches of random ids go to every system,
and how long their updates took goes out. This room imports harness, the
model's configuration and the trainer's packing.
"""
