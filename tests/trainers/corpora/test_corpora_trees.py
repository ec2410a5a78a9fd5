import errno
import pathlib

import pytest
from nltk.tree import Tree

from export.errors import InputError
from export.parsing.linear import delinearise
from export.parsing.trees import one_line, read_tree, read_trees
from trainers.corpora import kept_pairs, open_corpus
from trainers.corpora import trees as corpus_of_trees

CRAFT = pathlib.Path(__file__).parents[2] / "data/craft/craft"
TRACED = (
    "( (S (NP-SBJ-1 (DT The) (NN cell)) (VP (VBZ divides) (NP (-NONE- *-1)))))"
)
FLAT = "(S (NN go))"


@pytest.fixture
def prefix(tmp_path, write_text):
    """Three splits of two trees, and the dataset name for them."""
    for split in ("train", "dev", "test"):
        write_text(tmp_path / f"my.{split}.ptb", [TRACED, FLAT])
    return f"trees:{tmp_path}/my"


def _open(dataset, source=None, target=None):
    return open_corpus(dataset, source, target)


def _refused(match, *arguments):
    with pytest.raises(InputError, match=match) as caught:
        _open(*arguments)
    assert "\n" not in str(caught.value)


def test_pairs_are_words_and_symbols(prefix):
    corpus = _open(prefix)
    assert corpus.splits() == ("train", "dev", "test")
    assert (corpus.kind, corpus.name) == ("trees", prefix)
    assert (corpus.source_language, corpus.target_language) == ("en", "trees")
    assert list(corpus.pairs("dev")) == [
        ("The cell divides", "(S (NP DT NN )NP (VP VBZ )VP )S"),
        ("go", "(S NN )S"),
    ]


def test_evaluation_sets_have_whole_trees(prefix):
    held_out = _open(prefix).evaluation_set("test")
    assert held_out.sources == ("The cell divides", "go")
    assert held_out.references == (
        ("(TOP (S (NP (DT The) (NN cell)) (VP (VBZ divides))))",),
        ("(TOP (S (NN go)))",),
    )


@pytest.mark.parametrize("split", ["train", "dev"])
def test_pairs_and_evaluation_sets_of_craft_say_the_same_trees(split):
    corpus = _open(f"trees:{CRAFT}")
    lines = pathlib.Path(f"{CRAFT}.{split}.ptb").read_text("utf-8").splitlines()
    expected = [read_tree(line) for line in lines]
    pairs = list(corpus.pairs(split))
    assert list(corpus.trees(split)) == expected
    for tree, (words, symbols) in zip(expected, pairs, strict=True):
        assert delinearise(symbols.split(" "), words.split(" ")) == tree
        # nltk's own list of words, at single spaces.
        assert words.split() == words.split(" ") == tree.leaves()
    held_out = corpus.evaluation_set(split)
    assert held_out.sources == tuple(words for words, _ in pairs)
    assert [Tree.fromstring(one) for (one,) in held_out.references] == expected
    assert held_out.references == tuple((one_line(t),) for t in expected)


def test_pairs_are_streamed_and_can_be_read_again(tmp_path, write_text):
    write_text(tmp_path / "x.train.ptb", [FLAT, FLAT, "(S"])
    corpus = _open(f"trees:{tmp_path}/x")
    for _ in range(2):
        pairs = corpus.pairs("train")
        assert [next(pairs), next(pairs)] == [("go", "(S NN )S")] * 2
        with pytest.raises(InputError, match="Line 3 of .*x.train.ptb is no"):
            next(pairs)


def test_trees_are_parsed_once_however_often_pairs_are_read(
    prefix, monkeypatch
):
    parsed = []

    def read_once(path):
        parsed.append(path)
        return read_trees(path)

    monkeypatch.setattr(corpus_of_trees, "read_trees", read_once)
    corpus = _open(prefix)
    del parsed[:]
    # Not to its end: nothing is known yet.
    next(corpus.pairs("dev"))
    expected = list(corpus.pairs("dev"))
    assert len(parsed) == 2
    # Two readers at once, each at its own place.
    for row, one, other in zip(
        expected, corpus.pairs("dev"), corpus.pairs("dev"), strict=True
    ):
        assert row == one == other
    assert len(parsed) == 2


def test_more_than_one_piece_of_the_temporary_file(
    tmp_path, write_text, monkeypatch
):
    monkeypatch.setattr(kept_pairs, "_MEGABYTE", 50)
    words = [f"w\u2603{number}" for number in range(40)]
    write_text(tmp_path / "x.train.ptb", [f"(S (NN {each}))" for each in words])
    corpus = _open(f"trees:{tmp_path}/x")
    expected = [(each, "(S NN )S") for each in words]
    assert [list(corpus.pairs("train")) for _ in range(3)] == [expected] * 3


def test_a_full_disk_is_told(prefix, monkeypatch):
    def refused():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    with pytest.raises(InputError, match="temporary file: No space left"):
        list(_open(prefix).pairs("train"))


def test_packed_files_and_folders(tmp_path, write_text, monkeypatch):
    write_text(tmp_path / "train.ptb.gz", [TRACED])
    write_text(tmp_path / "dev.ptb.gz", [TRACED])
    write_text(tmp_path / "dev.ptb", [FLAT])
    corpus = _open(f"trees:{tmp_path}/", "de", "trees")
    assert corpus.source_language == "de"
    assert corpus.splits() == ("train", "dev")
    assert [source for source, _ in corpus.pairs("train")] == [
        "The cell divides"
    ]
    # The plain file where both are there.
    assert [source for source, _ in corpus.pairs("dev")] == ["go"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _open("trees:~/").fingerprint() == corpus.fingerprint()


def test_the_fingerprint_is_of_all_files(prefix, tmp_path):
    before = _open(prefix).fingerprint()
    assert before == _open(prefix).fingerprint()
    (tmp_path / "my.test.ptb").write_text(FLAT + "\n")
    changed = _open(prefix).fingerprint()
    assert changed != before
    (tmp_path / "my.test.ptb").unlink()
    assert _open(prefix).fingerprint() not in (before, changed)


@pytest.mark.parametrize("target", ["en", "fr", ""])
def test_another_target_is_refused(prefix, target):
    _refused(
        f"holds trees, not '{target}'; leave out --target_language",
        prefix,
        "en",
        target,
    )


@pytest.mark.parametrize(
    ("source", "match"),
    [("trees", "in a language, such as en"), ("../x", "no.* language code")],
)
def test_a_source_that_is_no_language_is_refused(prefix, source, match):
    _refused(match, prefix, source)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("(S (NN go)", "Line 1 of .*my.dev.ptb is no tree"),
        ("", "Line 1 of .*my.dev.ptb is no tree"),
        ("(S (NP (-NONE- *)))", "Line 1 of .* no tree: it has no words"),
    ],
)
def test_a_first_line_that_is_no_tree_is_refused_at_once(
    prefix, tmp_path, write_text, line, match
):
    write_text(tmp_path / "my.dev.ptb", [line, FLAT])
    _refused(match, prefix)


def test_files_that_are_not_there_or_empty(prefix, tmp_path, write_text):
    _refused("trees: needs a prefix", "trees:")
    nowhere = f"{tmp_path}/nowhere"
    _refused(
        f"no 'train' split: neither {nowhere}.train.ptb nor "
        f"{nowhere}.train.ptb.gz is there",
        f"trees:{nowhere}",
    )
    _refused("leads to no files", f"trees:{tmp_path}/{'m' * 300}")
    _refused("leads to no files", "trees:~nobody-of-this-name/x")
    write_text(tmp_path / "my.dev.ptb", [])
    _refused("my.dev.ptb holds no tree", prefix)
    (tmp_path / "my.dev.ptb").unlink()
    corpus = _open(prefix)
    for read in (corpus.pairs, corpus.trees, corpus.evaluation_set):
        with pytest.raises(InputError, match="no 'dev' split"):
            list(read("dev"))


def test_a_folder_in_place_of_a_file(tmp_path):
    (tmp_path / "my.train.ptb").mkdir()
    _refused("my.train.ptb is a folder", f"trees:{tmp_path}/my")


def test_trees_of_several_prefixes_come_as_often_as_asked(
    prefix, tmp_path, write_text
):
    for split in ("train", "dev"):
        write_text(tmp_path / f"silver.{split}.ptb", ["(S (UH oh))"])
    mixed = _open(f"{prefix}*2,{tmp_path}/silver*3")
    assert [source for source, _ in mixed.pairs("train")] == [
        *["The cell divides"] * 2,
        *["go"] * 2,
        *["oh"] * 3,
    ]
    # Nothing of silver is measured on, and nothing measured on twice.
    for split in ("dev", "test"):
        assert list(mixed.pairs(split)) == list(_open(prefix).pairs(split))
    assert mixed.fingerprint() != _open(prefix).fingerprint()
    before = mixed.fingerprint()
    write_text(tmp_path / "silver.train.ptb", [FLAT])
    assert _open(mixed.name).fingerprint() != before


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (",", "; '' is none"),
        (",{0}/my*0", "my[*]0' is none"),
        (",*4", r"'[*]4' is none"),
        (",{0}/none", "no trees of .*/none: neither .*none.train.ptb nor"),
    ],
)
def test_a_part_that_is_none_is_refused(prefix, tmp_path, more, match):
    _refused(match, prefix + more.format(tmp_path))


def test_silver_trees_need_gold_ones_beside(prefix, tmp_path):
    (tmp_path / "my.train.ptb").unlink()
    _refused("no 'train' split", f"{prefix},{tmp_path}/my")
