"""Pretrained translators: directories of other programs, in and out.

Come in: a directory as Hugging Face's `MarianMTModel.save_pretrained` writes
it, or one of Marian itself. Go out: our model directories, and the same
directories again. Each file here is one part of them: `architecture` and
`marian_options` (what the configurations mean), `layout` (which array is which
weight), `arrays`, `torch_file` and `yaml_text` (reading files, nothing
unpickled), `vocabulary` and `marian_table` (pieces and ids), `tokenizers`
(text). They may import what model directories are made of, and nothing of
training or serving.
"""
