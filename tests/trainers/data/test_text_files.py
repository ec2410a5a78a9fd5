import pytest

from export.common.errors import InputError
from tests.trainers.data.memory_corpus import refused
from trainers.data import open_corpus


@pytest.fixture
def write_split(tmp_path, write_text):
    """Writes files of both languages; the text is the name by default."""

    def write(name, *lines):
        for language in ("en", "de"):
            text = lines or [f"{name} {language}"]
            write_text(tmp_path / f"{name}.{language}", text)

    return write


@pytest.fixture
def prefix(tmp_path, write_text):
    """A corpus of three splits."""
    for split in ("train", "dev", "test"):
        for language in ("en", "de"):
            path = tmp_path / f"wmt.{split}.{language}"
            write_text(path, [f"{split} {language} {i}" for i in range(3)])
    return f"text:{tmp_path}/wmt"


def _open(dataset, source="en", target="de"):
    return open_corpus(dataset, source, target)


def _refused(match, *arguments):
    with refused(match):
        _open(*arguments)


def test_a_prefix_gives_three_splits_in_either_direction(
    tmp_path, prefix, monkeypatch
):
    corpus = _open(prefix)
    assert corpus.name == prefix
    assert corpus.splits() == ("train", "dev", "test")
    expected = [(f"train en {i}", f"train de {i}") for i in range(3)]
    # Two readers at once.
    assert list(zip(corpus.pairs("train"), corpus.pairs("train"))) == [
        *zip(expected, expected)
    ]
    back = _open(prefix, "de", "en").evaluation_set("dev")
    assert back.references == tuple((f"dev en {i}",) for i in range(3))
    monkeypatch.chdir(tmp_path)
    assert list(_open("text:wmt").pairs("train")) == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert list(_open("text:~/wmt").pairs("train")) == expected


@pytest.mark.parametrize(
    ("split", "names", "expected"),
    [
        ("dev", ("dev", "val", "valid"), "dev"),
        ("dev", ("valid", "val"), "val"),
        ("test", ("test", "test_2017"), "test"),
        ("test", ("test_2016_flickr",), "test_2016_flickr"),
        ("test", ("test_2016", "test_2017"), None),
    ],
)
def test_the_names_of_dev_and_test(
    tmp_path, write_split, split, names, expected
):
    for name in ("train", *names):
        write_split(name)
    corpus = _open(f"text:{tmp_path}/")
    if expected is None:
        assert corpus.splits() == ("train",)
        with pytest.raises(InputError, match="test_2016, test_2017"):
            corpus.pairs("test")
    else:
        assert corpus.splits() == ("train", split)
        assert corpus.evaluation_set(split).sources == (f"{expected} en",)


def test_more_references_and_sentences_without_some(tmp_path, write_text):
    contents = {
        "train.en": ["a"],
        "train.de": ["A"],
        # Only dev and test have more references.
        "train.de.1": ["not", "of", "interest"],
        "test.en": ["a", "b", "", "d"],
        "test.de": ["A", "B", "C", " "],
        "test.de.1": ["", "B1", "C1", ""],
        "test.de.10.gz": ["A10", "B10", "C10", ""],
        "test.de.2": ["A2", "", "C2", ""],
        "test.de.old": ["no reference"],
    }
    for name, lines in contents.items():
        write_text(tmp_path / name, lines)
    corpus = _open(f"text:{tmp_path}/")
    test = corpus.evaluation_set("test")
    assert test.sources == ("a", "b", "", "d")
    assert test.references == (
        ("A", "A2", "A10"),
        ("B", "B1", "B10"),
        ("C", "C1", "C2", "C10"),
        (),
    )
    assert list(corpus.pairs("test")) == [
        *(("a", "A"), ("a", "A2"), ("a", "A10")),
        *(("b", "B"), ("b", "B1"), ("b", "B10")),
    ]
    assert list(corpus.pairs("train")) == [("a", "A")]


def test_refusals(tmp_path, write_split, write_text, prefix):
    for match, *arguments in (
        ("needs a prefix", "text:"),
        (f"expected {tmp_path}/x.train.en", f"text:{tmp_path}/x"),
        ("nowhere", f"text:{tmp_path}/nowhere/x"),
        ("available: de, en", prefix, "en", None),
        ("both 'en'.*de, en", prefix, "en", "en"),
        (r"only .*train\.en of .*train\.fr", prefix, "en", "fr"),
        ("there are de, en", prefix, "fr", "it"),
        ("not a language code", prefix, "../en", "de"),
    ):
        _refused(match, *arguments)
    # A corpus to score on needs no training files.
    write_split("y.test")
    corpus = _open(f"text:{tmp_path}/y")
    assert corpus.splits() == ("test",)
    for split in ("train", "validation"):
        with pytest.raises(InputError, match=rf"y\.{split}\.en"):
            corpus.pairs(split)
    write_split("z.train", "", " ")
    _refused("no sentence pair", f"text:{tmp_path}/z")
    write_text(tmp_path / "wmt.test.de.1", ["x"] * 2)
    with pytest.raises(InputError, match=r"test\.de\.1 has 2"):
        _open(prefix).evaluation_set("test")
    path = tmp_path / "wmt.dev.en"
    path.write_bytes(b"\xff\n")
    _refused(r"Line 1 of .*wmt\.dev\.en", prefix)
    path.unlink()
    _refused(r"only .*wmt\.dev\.de", prefix)
    path.mkdir()
    _refused("dev.en", prefix)


def test_the_fingerprint_follows_every_file(tmp_path, write_text, prefix):
    first = _open(prefix).fingerprint()
    assert first == _open(prefix).fingerprint()
    seen = {first, _open(prefix, "de", "en").fingerprint()}
    for path in sorted(tmp_path.iterdir()):
        write_text(path, ["changed", "b", "c"])
        seen.add(_open(prefix).fingerprint())
    assert len(seen) == 2 + 6
