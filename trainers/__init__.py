"""Commands that learn: train, evaluate, prepare data."""

import os

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
