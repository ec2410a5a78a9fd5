"""Uses a trained model: translates, exports, serves and converts it.

Commands and the contracts that they share are files of this package; the rest
is in subpackages. Imports keras_transformer and nothing of trainers.
"""

import os

from export.common.start_up import ensure_utf8, select_tensorflow

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ensure_utf8()
select_tensorflow()
