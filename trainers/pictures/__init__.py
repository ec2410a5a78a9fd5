"""Pictures of attention and TensorBoard's event files.

They import the attention views of `export`, and no other package of trainers.
"""
