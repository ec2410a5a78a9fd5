"""The command export.parse."""

import pytest

from export.parsing.trees import format_tree, read_tree, read_trees, tree_words
from export.parsing.word_tokenizer import ontonotes_tokenize
from tests.export import commands

TEXTS = [
    'He said, "The protein binds."',
    "",
    "Liver-specific deletion (of Mtf1) isn't lethal.",
    " \u00a0",
    "It ends.",
]


def test_silver_trees_of_several_models_are_resumed(parser_path, tmp_path):
    (tmp_path / "in").write_text("\n".join(TEXTS), "utf-8")
    output = tmp_path / "silver.train.ptb"
    begun = "(TOP (X (NN He) (NN said) (, ,) (NN ``) (NN The) (NN protein) "
    begun += "(NN binds) (. .) (. '')))"
    output.write_text(f"{begun}\n(TOP (NN Liv")
    flags = ["--tokenize=penn", "--skip_blank", "--resume", "--beam_size=1"]
    flags += [f"--input={tmp_path / 'in'}", f"--output={output}"]
    flags += [f"--model={parser_path}"]
    code, out, err = commands.run("export.parse", parser_path, [], *flags)
    assert (code, out) == (0, []), err
    first, *others = read_trees(output)
    assert format_tree(first) == begun
    assert [tree_words(tree) for tree in others] == [
        ontonotes_tokenize(TEXTS[2]),
        ontonotes_tokenize(TEXTS[4]),
    ]


def test_pictures_and_indented_trees_with_scores(parser_path, tmp_path):
    flags = ["--pretty", "--scores", "--n_best=2"]
    flags += [f"--svg={tmp_path / 'pictures'}"]
    texts = ["A cell .", "", "(x )"]
    code, out, err = commands.run("export.parse", parser_path, texts, *flags)
    assert code == 0, err
    blocks = "\n".join(out).split("\n\n")
    heads, trees = zip(*[each.split("\n", 1) for each in blocks if "(" in each])
    assert [head.split(" ||| ")[0] for head in heads] == ["0", "0", "2", "2"]
    words = [tree_words(read_tree(tree)) for tree in trees]
    assert words == [["A", "cell", "."]] * 2 + [["-LRB-x", "-RRB-"]] * 2
    assert len(list((tmp_path / "pictures").iterdir())) == 4


@pytest.mark.parametrize(
    "flags, source, name",
    [
        ("--resume", b"", "--input"),
        ("--svg={0}", b"", "--svg"),
        ("--n_best=9 --svg={0}/new", b"", "--n_best"),
        ("", b"A cell .\n\xff\n", "Line 2"),
    ],
)
def test_refusals_are_one_line(parser_path, tmp_path, flags, source, name):
    flags = flags.format(tmp_path).split()
    code, out, err = commands.run("export.parse", parser_path, source, *flags)
    assert (code, out) == (2, [])
    (line,) = err
    assert line.startswith("Error: ") and name in line
    assert list(tmp_path.iterdir()) == []
