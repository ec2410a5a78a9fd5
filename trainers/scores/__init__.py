"""Scores with signature and interval, as entries of scores.json.

`evaluation` has BLEU, chrF and perplexity, `brackets` EVALB's F1 of trees,
`bleu_tokenizers` the tokenizer for a language, `score_records` the files.
"""
