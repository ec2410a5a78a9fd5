"""Pretrained translators: directories of other programs, in and out.

Come in: a directory as Hugging Face's `MarianMTModel.save_pretrained` writes
it, or one of Marian itself. Go out: our model directories, and the same
directories again. Each file here is one part of them: `architecture` (what
the configurations mean), `layout` (which array is which weight), `arrays` and
`torch_file` (reading arrays, nothing unpickled), `vocabulary` (pieces and
ids). They may import what model directories are made of, and nothing of
training or serving.
"""
