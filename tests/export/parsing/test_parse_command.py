"""The command, as users run it."""

import pytest

from export.parsing.penn_tokens import ontonotes_words
from export.parsing.trees import one_line, read_tree, read_trees, words
from tests import processes
from tests.export.parsing import tiny_parser

TEXTS = [
    'He said, "The protein binds."',
    "",
    "Liver-specific deletion (of Mtf1) isn't lethal.",
    " \u00a0",
    "It ends.",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parser")
    tiny_parser.write(path)
    return path


def _run(path, *flags, folder, source=b""):
    return processes.run(
        {"module": "export.parse"},
        [f"--model={path}", *flags],
        folder,
        source=source,
    )


def test_silver_trees_of_several_models_go_on(path, tmp_path):
    (tmp_path / "in").write_text("\n".join(TEXTS), "utf-8")
    output = tmp_path / "silver.train.ptb"
    begun = "(TOP (X (NN He) (NN said) (, ,) (NN ``) (NN The) (NN protein) "
    begun += "(NN binds) (. .) (. '')))"
    output.write_text(f"{begun}\n(TOP (NN Liv")
    flags = ["--tokenize=penn", "--skip_blank", "--input=in", "--resume"]
    flags += [f"--output={output}", f"--model={path}", "--beam_size=1"]
    done = _run(path, *flags, folder=tmp_path)
    assert (done.code, done.out) == (0, ""), done.err
    first, *others = read_trees(output)
    assert one_line(first) == begun
    assert [words(tree) for tree in others] == [
        ontonotes_words(TEXTS[2]),
        ontonotes_words(TEXTS[4]),
    ]


def test_pictures_and_indented_trees_with_scores(path, tmp_path):
    flags = ["--pretty", "--scores", "--n_best=2", "--svg=pictures"]
    source = b"A cell .\n\n(x )\n"
    done = _run(path, *flags, folder=tmp_path, source=source)
    assert done.code == 0, done.err
    blocks = done.out.split("\n\n")
    heads, trees = zip(*[each.split("\n", 1) for each in blocks if "(" in each])
    assert [head.split(" ||| ")[0] for head in heads] == ["0", "0", "2", "2"]
    found = [read_tree(tree) for tree in trees]
    for (best, second), its_words in zip(
        (found[:2], found[2:]), (["A", "cell", "."], ["-LRB-x", "-RRB-"])
    ):
        assert words(best) == words(second) == its_words
        assert best != second
    scores = [float(head.split(" ||| ")[1]) for head in heads]
    assert 0 > scores[0] >= scores[1] and 0 > scores[2] >= scores[3]
    assert len(blocks) == 6 and blocks[2] == "1 ||| 0.000000"
    assert sorted(each.name for each in (tmp_path / "pictures").iterdir()) == [
        f"line-00000{line}-tree-{place}.svg"
        for line in (1, 3)
        for place in (1, 2)
    ]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--resume"], "give both --input and --output"),
        (["--resume", "--input=i", "--output=o", "--n_best=2"], "--n_best"),
        (["--svg=."], "holds files already, and pictures go into a folder"),
        (["--n_best=9"], "--n_best=9 is above the beam size"),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(
    path, tmp_path, flags, message
):
    (tmp_path / "mine").write_text("mine")
    done = _run(path, *flags, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("Error: ")
    assert message in line
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_bytes_that_are_not_text_are_one_line(path, tmp_path):
    source = b"A cell .\n\xff\n"
    done = _run(path, folder=tmp_path, source=source)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("Error: Line 2 of the input is not UTF-8")
