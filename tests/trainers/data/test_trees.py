import pathlib

import pytest

from export.common.errors import InputError
from export.parsing.trees import read_trees
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
    # The fingerprint is of all files.
    before = corpus.fingerprint()
    write_text(tmp_path / "dev.ptb", [TRACED])
    assert _open("trees:~/").fingerprint() != before


def test_refusals(prefix, tmp_path, write_text):
    nowhere = f"{tmp_path}/nowhere"
    for match, *arguments in (
        ("--target_language", prefix, "en", "fr"),
        ("--target_language", prefix, "en", ""),
        ("--source_language", prefix, "trees", None),
        ("language code", prefix, "../x", None),
        ("trees: needs a prefix", "trees:"),
        (f"{nowhere}.train.ptb nor {nowhere}.train", f"trees:{nowhere}"),
        ("leads to no files", f"trees:{tmp_path}/{'m' * 300}"),
        ("leads to no files", "trees:~nobody-of-this-name/x"),
        ("''", f"{prefix},"),
        ("my[*]0'", f"{prefix},{tmp_path}/my*0"),
        ("'[*]4'", f"{prefix},*4"),
        ("none.train.ptb", f"{prefix},{tmp_path}/none"),
    ):
        _refused(match, *arguments)
    # Files without a tree are refused at once.
    for lines, match in (
        (["(S (NN go)", FLAT], "Line 1 of .*my.dev.ptb"),
        (["", FLAT], "Line 1 of .*my.dev.ptb"),
        (["(S (NP (-NONE- *)))", FLAT], "Line 1 of .*my.dev.ptb"),
        ([], "my.dev.ptb holds no tree"),
    ):
        write_text(tmp_path / "my.dev.ptb", lines)
        _refused(match, prefix)
    (tmp_path / "my.dev.ptb").unlink()
    corpus = _open(prefix)
    for read in (corpus.pairs, corpus.trees, corpus.evaluation_set):
        with pytest.raises(InputError, match="'dev'"):
            list(read("dev"))
    (tmp_path / "my.train.ptb").unlink()
    _refused("no 'train' split", f"{prefix},{tmp_path}/my")
    (tmp_path / "my.train.ptb").mkdir()
    _refused("train.ptb is a folder", prefix)


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
