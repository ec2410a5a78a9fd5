"""Pages made from scores.json: results, and Table 3 next to the paper's.

They import nothing else from `trainers` but `training.config_flags`.
"""
