"""Times this project compared with others, and parts of it alone.

Commands: `train_step`, `decode`, `serving`, `data`, `complexity`, and
`widened`, which makes the model that `decode` wants. `training_job` and
`decoding_job` have the work and the systems of the first two; `peers` has
what runs them, loaded by name in worker processes, and may import these two.
Everything may import `harness` and the project's three packages.
"""
