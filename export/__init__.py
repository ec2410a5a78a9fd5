"""Uses a trained model: translates, exports, serves and converts it.

Modules at the top level are commands and `model_directory`; their parts are in
subpackages. Nothing here imports trainers.
"""

import os

from export.common.start_up import ensure_utf8, select_tensorflow

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ensure_utf8()
select_tensorflow()
