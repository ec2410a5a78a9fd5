"""Raw text as the words of treebanks."""

from hypothesis import given
from hypothesis import strategies as st

from export.parsing.penn_tokenizer import (
    ontonotes_tokenize,
    penn_tokenize,
    split_at_spaces,
    tokenizer_for_tags,
)
from export.parsing.trees import read_trees, tree_tags, tree_words
from tests.export.parsing.made_trees import TRAIN

# Penn words are those of Robert MacIntyre's script for the Penn Treebank.
PENN = """
He said, "The protein binds to DNA (see Fig. 2)."
He said , `` The protein binds to DNA -LRB- see Fig. 2 -RRB- . ''
It cannot bind; we can't say it's John's.
It can not bind ; we ca n't say it 's John 's .
At 3.14, or 1,000 in U.S. dollars, 10% of $5.
At 3.14 , or 1,000 in U.S. dollars , 10 % of $ 5 .
The mice' tails ... end.
The mice ' tails ... end .
“I don’t,” he said.
`` I do n't , '' he said .
-LRB- given -RRB- [a]
-LRB- given -RRB- [ a ]
Is it and/or long-range?
Is it and/or long-range ?
It ends. It begins.
It ends. It begins .
"""
ONTONOTES = """
New York-based
New York - based
A/J and -/- mice
A / J and - / - mice
non-zero, anti-BMP-4, 2-fold
non-zero , anti-BMP - 4 , 2-fold
T-fork (x) -- or
T - fork -LRB- x -RRB- -- or
- -a a- /
- -a a- /
"""


def test_text_is_split_into_words():
    for split, lines in (
        (penn_tokenize, PENN.strip().split("\n")),
        (ontonotes_tokenize, ONTONOTES.strip().split("\n")),
        (penn_tokenize, ["a\u00a0b\u2028c\0", "a b c", " \u2009 \0", ""]),
        (split_at_spaces, [" (a\tb)\u2009c\0 [d] ", "-LRB-a b-RRB-c [d]"]),
        (split_at_spaces, ["cannot\n", "cannot", "\0 \u2009", ""]),
    ):
        for text, words in zip(lines[::2], lines[1::2], strict=True):
            assert " ".join(split(text)) == words


def test_the_tags_of_the_treebank_decide_about_hyphens():
    assert tokenizer_for_tags(["HYPH", "NN"]) is ontonotes_tokenize
    assert tokenizer_for_tags(["NN"]) is penn_tokenize


def test_hyphens_are_those_of_craft():
    """Words around hyphens in CRAFT, written together and split again."""
    right = wrong = 0
    for tree in read_trees(TRAIN):
        for parts in _written_together(tree_words(tree), tree_tags(tree)):
            whole = "".join(parts)
            if "-" in whole[1:-1] or "/" in whole[1:-1]:
                right += ontonotes_tokenize(whole) == parts
                wrong += ontonotes_tokenize(whole) != parts
    assert (right, wrong) == (82, 2)


def _written_together(its_words, its_tags):
    groups, is_joined = [], False
    for word, tag in zip(its_words, its_tags):
        is_hyphen = tag == "HYPH"
        if groups and (is_joined or is_hyphen):
            groups[-1].append(word)
        else:
            groups.append([word])
        is_joined = is_hyphen
    # Brackets would be taken for hyphens on either side.
    return [group for group in groups if not {"-LRB-", "-RRB-"} & set(group)]


@given(st.text(st.sampled_from("ab1 -/().,'`\"’“$\u2009\0")) | st.text())
def test_splitting_words_again_changes_nothing(text):
    for split in (split_at_spaces, penn_tokenize, ontonotes_tokenize):
        found = split(text)
        assert split_at_spaces(" ".join(found)) == found
        assert not any({"(", ")"} & set(word) for word in found)
        assert bool(found) == bool(split_at_spaces(text))
