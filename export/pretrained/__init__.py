"""Converts pretrained models to model directories, and back.

`hugging_face_reader` reads directories of `MarianMTModel.save_pretrained`,
which `hugging_face_writer` writes; `m2m_reader` those of M2M-100 and NLLB-200,
whose `tokenizer.json` `fast_tokenizer` converts; `marian_npz_reader` Marian's
own. `pretrained_model` is what they return, and writes it. `config_files` has
their fields, `vocabulary` converts vocabularies, `weight_mapping` weights, and
`weights_file` and `torch_file` read arrays.
"""
