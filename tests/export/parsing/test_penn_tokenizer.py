"""Raw text as the words of treebanks."""

import pytest
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
@pytest.mark.parametrize(
    "split, text, expected",
    [
        (
            penn_tokenize,
            'He said, "The protein binds to DNA (see Fig. 2)."',
            "He said , `` The protein binds to DNA -LRB- see Fig. 2 -RRB- . ''",
        ),
        (
            penn_tokenize,
            "It cannot bind; we can't say it's John's.",
            "It can not bind ; we ca n't say it 's John 's .",
        ),
        (
            penn_tokenize,
            "At 3.14, or 1,000 in U.S. dollars, 10% of $5.",
            "At 3.14 , or 1,000 in U.S. dollars , 10 % of $ 5 .",
        ),
        (
            penn_tokenize,
            "The mice' tails ... end.",
            "The mice ' tails ... end .",
        ),
        (penn_tokenize, "“I don’t,” he said.", "`` I do n't , '' he said ."),
        (penn_tokenize, "-LRB- given -RRB- [a]", "-LRB- given -RRB- [ a ]"),
        (
            penn_tokenize,
            "Is it and/or long-range?",
            "Is it and/or long-range ?",
        ),
        # One line is one sentence.
        (penn_tokenize, "It ends. It begins.", "It ends. It begins ."),
        (penn_tokenize, "a\u00a0b\u2028c\0", "a b c"),
        (penn_tokenize, " \u2009 \0", ""),
        (ontonotes_tokenize, "New York-based", "New York - based"),
        (ontonotes_tokenize, "A/J and -/- mice", "A / J and - / - mice"),
        (
            ontonotes_tokenize,
            "non-zero, anti-BMP-4, 2-fold",
            "non-zero , anti-BMP - 4 , 2-fold",
        ),
        (
            ontonotes_tokenize,
            "T-fork (x) -- or",
            "T - fork -LRB- x -RRB- -- or",
        ),
        (ontonotes_tokenize, "- -a a- /", "- -a a- /"),
        (
            split_at_spaces,
            " (a\tb)\u2009c\0 [d] cannot ",
            "-LRB-a b-RRB-c [d] cannot",
        ),
        (split_at_spaces, "\0 \u2009", ""),
    ],
)
def test_text_is_split_into_words(split, text, expected):
    assert " ".join(split(text)) == expected


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
