"""What is particular to `serving.py`: many callers, and a server's batching.

Any function of a request comes in, what its callers noticed goes out. This
room imports numpy and no other room.

"""
