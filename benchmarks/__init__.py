"""Times this project beside others, and parts of it alone.

The commands lie here: `train_step`, `decode`, `serving`,
`fast`, `data`, `complexity`, and `widened`, which makes
the model that `decode` wants. They import the rooms; every room may import
harness and the project's three floors, and none a command. `peers` imports
training_step and decoding; worker processes load it by name.
"""
