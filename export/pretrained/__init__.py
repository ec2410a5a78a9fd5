"""Reads and writes pretrained translators in other formats.

Read: directories of Hugging Face's `MarianMTModel.save_pretrained`
(`hugging_face_reader`) and Marian's own (`marian_reader`). Written: model
directories for `MarianMTModel` (`hugging_face_writer`). `config_files` lists
the known fields, `weight_mapping` maps arrays to weights, `vocabulary` pieces
to ids, and `checkpoint` reads arrays without executing pickles.
"""
