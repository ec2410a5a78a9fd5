"""Sentence pairs in TMX, TSV, JSON lines, Parquet, Hugging Face datasets."""
