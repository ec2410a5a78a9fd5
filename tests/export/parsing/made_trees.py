"""Trees of CRAFT, and trees made up by hypothesis."""

import pathlib

from hypothesis import strategies as st
from nltk.tree import Tree

from export.parsing.trees import ROOT

CRAFT = pathlib.Path(__file__).parents[2] / "data" / "craft"
TRAIN, DEV = CRAFT / "craft.train.ptb", CRAFT / "craft.dev.ptb"

LABELS = ["S", "NP", "VP", "ADVP", "PRT", "WHNP"]
TAGS = ["NN", "DT", ",", ".", "``", "-LRB-", "PRP$"]
WORDS = ["cell", "The", ",", ".", "\\", "-RRB-", "3", "a/b", "α"]


def brackets(labels=LABELS, tags=TAGS, max_leaves=20):
    tagged_words = st.builds(
        lambda tag, word: Tree(tag, [word]),
        st.sampled_from(tags),
        st.sampled_from(WORDS),
    )
    return st.recursive(
        tagged_words,
        lambda inner: st.builds(
            Tree, st.sampled_from(labels), st.lists(inner, min_size=1)
        ),
        max_leaves=max_leaves,
    )


def normal_trees():
    """Normalised trees; the root stands above one bracket or several."""
    return st.lists(brackets(), min_size=1, max_size=3).map(
        lambda children: Tree(ROOT, children)
    )
