"""Times this project beside others, and parts of it alone.

The commands lie here: `train_step`, `decode`, `serving`, `data`, and `widened`,
which makes the model that `decode` wants. They import the rooms; a room
imports harness, and the three floors of the project, and no command.
`peers` is imported by nobody: worker processes load it by name.

"""
