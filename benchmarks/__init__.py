"""Benchmarks of this project, mostly in comparison with other libraries.

Commands: `train_step`, `decode`, `serving`, `data`, `complexity`, and
`widened`, which makes a model for `decode`. `training_job` and `decoding_job`
define the workloads and systems of the first two; `peers` runs these systems
in worker processes and may import both. All modules may import `harness`.
"""
