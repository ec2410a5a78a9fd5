"""Pictures of attention, and the files of events that TensorBoard shows.

A model and sentences come in, events go out. This room imports no other.
"""
