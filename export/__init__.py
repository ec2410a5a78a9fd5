"""A trained model made useful: translate with it, export it, serve it."""

import os

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
