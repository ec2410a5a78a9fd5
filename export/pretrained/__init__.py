"""Converts pretrained Marian models to model directories, and back.

`hugging_face_reader` reads directories of `MarianMTModel.save_pretrained`,
which `hugging_face_writer` writes; `marian_npz_reader` reads Marian's own.
`config_files` has their fields, `vocabulary` converts vocabularies,
`weight_mapping` weights, and `weights_file` and `torch_file` read arrays.
"""
