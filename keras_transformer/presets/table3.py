"""Every row of Table 3 but base and big, under the table's row letters.

python -m trainers.table3 --rows=A1,B16 --dataset=wmt14_translate/de-en \
    --source_language=en --target_language=de --output_dir=runs/table3

Each row differs from base in the fields given here; none averages its
checkpoints (Table 3's caption: development set, no checkpoint averaging).
"""

from keras_transformer.presets.paper import BASE

_ROW = BASE | {"average_checkpoints": 0}

TABLE3 = {
    "A1": _ROW | {"num_heads": 1, "d_k": 512, "d_v": 512},
    "A4": _ROW | {"num_heads": 4, "d_k": 128, "d_v": 128},
    "A16": _ROW | {"num_heads": 16, "d_k": 32, "d_v": 32},
    "A32": _ROW | {"num_heads": 32, "d_k": 16, "d_v": 16},
    "B16": _ROW | {"d_k": 16},
    "B32": _ROW | {"d_k": 32},
    "C-n2": _ROW | {"num_layers": 2},
    "C-n4": _ROW | {"num_layers": 4},
    "C-n8": _ROW | {"num_layers": 8},
    "C-d256": _ROW | {"d_model": 256, "d_k": 32, "d_v": 32},
    "C-d1024": _ROW | {"d_model": 1024, "d_k": 128, "d_v": 128},
    "C-ff1024": _ROW | {"d_ff": 1024},
    "C-ff4096": _ROW | {"d_ff": 4096},
    "D-drop0": _ROW | {"dropout": 0.0},
    "D-drop2": _ROW | {"dropout": 0.2},
    "D-ls0": _ROW | {"label_smoothing": 0.0},
    "D-ls2": _ROW | {"label_smoothing": 0.2},
    "E-learned": _ROW | {"positions": "learned"},
}
