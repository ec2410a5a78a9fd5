"""A trained model made useful: translate with it, export it, serve it.

Commands and the contracts that they share stand here; the rooms are `lines`,
`translators`, `parsing`, `serving`, `server_runtime`, `remote`,
`attention_views` and `conversion`. This floor imports keras_transformer and
nothing of trainers.
"""

import os

from export.common.start_up import ensure_utf8, select_tensorflow

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ensure_utf8()
select_tensorflow()
