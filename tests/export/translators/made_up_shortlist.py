"""A shortlist of made-up probabilities."""

import numpy as np


def made_up_shortlist(tokenizer, seed=0):
    """Returns the text of one, with 12 targets of each source piece."""
    generator = np.random.default_rng(seed)
    size = tokenizer.vocabulary_size
    lines = []
    for source in range(4, size):
        targets = generator.choice(np.arange(4, size), 12, replace=False)
        shares = generator.dirichlet(np.ones(12))
        lines += [
            f"{tokenizer.id_to_token(target)} {tokenizer.id_to_token(source)} "
            f"{share:.6f}"
            for target, share in zip(targets.tolist(), shares)
        ]
    lines += [
        f"{tokenizer.id_to_token(each)} NULL 0.001" for each in range(4, 9)
    ]
    return "".join(f"{line}\n" for line in lines)
