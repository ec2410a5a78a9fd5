import errno
import pathlib

import pytest
from nltk.tree import Tree

from export.common.errors import InputError
from export.parsing.linearization import delinearize
from export.parsing.trees import format_tree, read_tree, read_trees
from trainers.data import open_corpus
from trainers.data import trees as tree_corpus

CRAFT = pathlib.Path(__file__).parents[2] / "data/craft/craft"
TRACED = (
    "( (S (NP-SBJ-1 (DT The) (NN cell)) (VP (VBZ divides) (NP (-NONE- *-1)))))"
)
FLAT = "(S (NN go))"


@pytest.fixture
def prefix(tmp_path, write_text):
    """A corpus of three splits of two trees."""
    for split in ("train", "dev", "test"):
        write_text(tmp_path / f"my.{split}.ptb", [TRACED, FLAT])
    return f"trees:{tmp_path}/my"


def _open(dataset, source=None, target=None):
    return open_corpus(dataset, source, target)


def _refused(match, *arguments):
    with pytest.raises(InputError, match=match) as caught:
        _open(*arguments)
    assert "\n" not in str(caught.value)


def _sources(corpus, split):
    return [source for source, _ in corpus.pairs(split)]


def test_pairs_are_words_and_symbols(prefix):
    corpus = _open(prefix)
    assert corpus.splits() == ("train", "dev", "test")
    assert (corpus.kind, corpus.name) == ("trees", prefix)
    assert (corpus.source_language, corpus.target_language) == ("en", "trees")
    assert list(corpus.pairs("dev")) == [
        ("The cell divides", "(S (NP DT NN )NP (VP VBZ )VP )S"),
        ("go", "(S NN )S"),
    ]
    evaluation_set = corpus.evaluation_set("test")
    assert evaluation_set.sources == ("The cell divides", "go")
    assert evaluation_set.references == (
        ("(TOP (S (NP (DT The) (NN cell)) (VP (VBZ divides))))",),
        ("(TOP (S (NN go)))",),
    )


@pytest.mark.parametrize("split", ["train", "dev"])
def test_pairs_and_evaluation_sets_of_craft_are_the_same_trees(split):
    corpus = _open(f"trees:{CRAFT}")
    lines = pathlib.Path(f"{CRAFT}.{split}.ptb").read_text("utf-8").splitlines()
    expected = [read_tree(line) for line in lines]
    pairs = list(corpus.pairs(split))
    assert list(corpus.trees(split)) == expected
    for tree, (words, symbols) in zip(expected, pairs, strict=True):
        assert delinearize(symbols.split(" "), words.split(" ")) == tree
        assert words.split() == words.split(" ") == tree.leaves()
    evaluation_set = corpus.evaluation_set(split)
    assert evaluation_set.sources == tuple(words for words, _ in pairs)
    assert evaluation_set.references == tuple(
        (format_tree(t),) for t in expected
    )
    for (text,), tree in zip(evaluation_set.references, expected):
        assert Tree.fromstring(text) == tree


def test_trees_are_parsed_once_however_often_pairs_are_read(
    tmp_path, write_text, monkeypatch
):
    parsed = []

    def count(path):
        parsed.append(path)
        return read_trees(path)

    monkeypatch.setattr(tree_corpus, "read_trees", count)
    monkeypatch.setattr(tree_corpus, "_MEGABYTE", 50)
    words = [f"w\u2603{number}" for number in range(40)]
    write_text(tmp_path / "x.train.ptb", [f"(S (NN {each}))" for each in words])
    corpus = _open(f"trees:{tmp_path}/x")
    del parsed[:]
    expected = [(each, "(S NN )S") for each in words]
    next(corpus.pairs("train"))
    # Two readers at once, each at its own position.
    for row, one, other in zip(
        expected, corpus.pairs("train"), corpus.pairs("train"), strict=True
    ):
        assert row == one == other
    assert len(parsed) == 1
    # The generator keeps the corpus.
    pairs = _open(f"trees:{tmp_path}/x").pairs("train")
    assert list(pairs) == expected


def test_what_goes_wrong_in_the_temporary_file(
    tmp_path, write_text, prefix, monkeypatch
):
    write_text(tmp_path / "x.train.ptb", [FLAT, FLAT, "(S"])
    corpus = _open(f"trees:{tmp_path}/x")
    for _ in range(2):
        with pytest.raises(InputError, match=r"Line 3 of .*x\.train\.ptb"):
            list(corpus.pairs("train"))

    def refuse():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(InputError, match="No space left"):
        list(_open(prefix).pairs("train"))


def test_packed_files_and_folders(tmp_path, write_text, monkeypatch):
    write_text(tmp_path / "train.ptb.gz", [TRACED])
    write_text(tmp_path / "dev.ptb.gz", [TRACED])
    write_text(tmp_path / "dev.ptb", [FLAT])
    corpus = _open(f"trees:{tmp_path}/", "de", "trees")
    assert corpus.source_language == "de"
    assert corpus.splits() == ("train", "dev")
    assert _sources(corpus, "train") == ["The cell divides"]
    assert _sources(corpus, "dev") == ["go"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _open("trees:~/").fingerprint() == corpus.fingerprint()
    (tmp_path / "train.ptb").mkdir()
    _refused("train.ptb is a folder", f"trees:{tmp_path}/")


def test_the_fingerprint_is_of_all_files(prefix, tmp_path):
    first = _open(prefix).fingerprint()
    assert first == _open(prefix).fingerprint()
    (tmp_path / "my.test.ptb").write_text(FLAT + "\n")
    changed = _open(prefix).fingerprint()
    (tmp_path / "my.test.ptb").unlink()
    assert len({first, changed, _open(prefix).fingerprint()}) == 3


@pytest.mark.parametrize(
    ("source", "target", "match"),
    [
        ("en", "fr", "--target_language"),
        ("en", "", "--target_language"),
        ("trees", None, "--source_language"),
        ("../x", None, "language code"),
    ],
)
def test_languages_are_checked(prefix, source, target, match):
    _refused(match, prefix, source, target)


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (["(S (NN go)", FLAT], "Line 1 of .*my.dev.ptb"),
        (["", FLAT], "Line 1 of .*my.dev.ptb"),
        (["(S (NP (-NONE- *)))", FLAT], "Line 1 of .*my.dev.ptb"),
        ([], "my.dev.ptb holds no tree"),
    ],
)
def test_files_without_a_tree_are_refused_at_once(
    prefix, tmp_path, write_text, lines, match
):
    write_text(tmp_path / "my.dev.ptb", lines)
    _refused(match, prefix)


def test_missing_files(prefix, tmp_path):
    nowhere = f"{tmp_path}/nowhere"
    _refused(
        f"{nowhere}.train.ptb nor {nowhere}.train.ptb.gz", f"trees:{nowhere}"
    )
    _refused("leads to no files", f"trees:{tmp_path}/{'m' * 300}")
    _refused("leads to no files", "trees:~nobody-of-this-name/x")
    (tmp_path / "my.dev.ptb").unlink()
    corpus = _open(prefix)
    for read in (corpus.pairs, corpus.trees, corpus.evaluation_set):
        with pytest.raises(InputError, match="'dev'"):
            list(read("dev"))


def test_trees_of_several_prefixes_are_repeated(prefix, tmp_path, write_text):
    for split in ("train", "dev"):
        write_text(tmp_path / f"silver.{split}.ptb", ["(S (UH oh))"])
    mixed = _open(f"{prefix}*2,{tmp_path}/silver*3")
    assert _sources(mixed, "train") == [
        *["The cell divides"] * 2,
        *["go"] * 2,
        *["oh"] * 3,
    ]
    # Dev and test are the first's, once.
    for split in ("dev", "test"):
        assert list(mixed.pairs(split)) == list(_open(prefix).pairs(split))
    before = mixed.fingerprint()
    assert before != _open(prefix).fingerprint()
    write_text(tmp_path / "silver.train.ptb", [FLAT])
    assert _open(mixed.name).fingerprint() != before


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (",", "''"),
        (",{0}/my*0", "my[*]0'"),
        (",*4", "'[*]4'"),
        (",{0}/none", "none.train.ptb"),
    ],
)
def test_a_wrong_part_is_refused(prefix, tmp_path, more, match):
    _refused(match, prefix + more.format(tmp_path))


def test_only_silver_trees_to_train_on_are_refused(prefix, tmp_path):
    (tmp_path / "my.train.ptb").unlink()
    _refused("no 'train' split", f"{prefix},{tmp_path}/my")
    _refused("trees: needs a prefix", "trees:")
