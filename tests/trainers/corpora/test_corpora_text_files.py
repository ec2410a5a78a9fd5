import pathlib

import pytest

from export.errors import InputError
from trainers.corpora import open_corpus

MULTI30K = pathlib.Path(__file__).parents[4] / "shared/data/multi30k"


@pytest.fixture
def prefix(tmp_path, write_text):
    """A whole corpus of three splits, and the dataset name for it."""
    for split in ("train", "dev", "test"):
        for language in ("en", "de"):
            path = tmp_path / f"wmt.{split}.{language}"
            write_text(path, [f"{split} {language} {i}" for i in range(3)])
    return f"text:{tmp_path}/wmt"


def _open(dataset, source="en", target="de"):
    return open_corpus(dataset, source, target)


def test_a_prefix_gives_three_splits_in_either_direction(prefix):
    corpus = _open(prefix)
    assert corpus.name == prefix
    assert (corpus.source_language, corpus.target_language) == ("en", "de")
    assert corpus.splits() == ("train", "dev", "test")
    assert list(corpus.pairs("train"))[1] == ("train en 1", "train de 1")
    assert _open(prefix, "de", "en").evaluation_set("dev").references == (
        ("dev en 0",),
        ("dev en 1",),
        ("dev en 2",),
    )


def test_pairs_can_be_read_again_and_side_by_side(prefix):
    corpus = _open(prefix)
    first, second = corpus.pairs("train"), corpus.pairs("train")
    assert next(first) == next(second)
    assert list(first) == list(second)
    assert len(list(corpus.pairs("train"))) == 3


def test_packed_files_read_like_plain_ones(tmp_path, write_text, prefix):
    for language in ("en", "de"):
        plain = tmp_path / f"wmt.train.{language}"
        write_text(
            tmp_path / f"packed.train.{language}.gz",
            plain.read_text().splitlines(),
        )
    packed = _open(f"text:{tmp_path}/packed")
    assert packed.splits() == ("train",)
    assert list(packed.pairs("train")) == list(_open(prefix).pairs("train"))


def test_the_plain_file_is_read_where_both_are_there(
    tmp_path, write_text, prefix
):
    write_text(tmp_path / "wmt.train.en.gz", ["old"])
    assert next(_open(prefix).pairs("train"))[0] == "train en 0"


def test_a_folder_with_val_and_a_named_test_set(tmp_path, write_text):
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de"):
            write_text(tmp_path / f"{name}.{language}", [f"{name} {language}"])
    corpus = _open(f"text:{tmp_path}/")
    assert corpus.splits() == ("train", "dev", "test")
    assert corpus.evaluation_set("dev").sources == ("val en",)
    assert list(corpus.pairs("test")) == [
        ("test_2016_flickr en", "test_2016_flickr de")
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("dev", "val", "valid"), "dev"),
        (("valid", "val"), "val"),
        (("valid",), "valid"),
    ],
)
def test_the_names_of_dev(tmp_path, write_text, names, expected):
    for name in ("train", *names):
        for language in ("en", "de"):
            write_text(tmp_path / f"x.{name}.{language}", [name])
    corpus = _open(f"text:{tmp_path}/x")
    assert corpus.evaluation_set("dev").sources == (expected,)


def test_test_goes_before_other_test_sets(tmp_path, write_text):
    for name in ("train", "test", "test_2017"):
        for language in ("en", "de"):
            write_text(tmp_path / f"x.{name}.{language}", [name])
    corpus = _open(f"text:{tmp_path}/x")
    assert corpus.evaluation_set("test").sources == ("test",)


def test_of_several_other_test_sets_none_is_chosen(tmp_path, write_text):
    for name in ("train", "test_2016", "test_2017"):
        for language in ("en", "de"):
            write_text(tmp_path / f"{name}.{language}", [name])
    corpus = _open(f"text:{tmp_path}/")
    assert corpus.splits() == ("train",)
    with pytest.raises(InputError, match="test_2016, test_2017"):
        corpus.pairs("test")


def test_more_references_and_sentences_that_lack_some(tmp_path, write_text):
    contents = {
        "train.en": ["a"],
        "train.de": ["A"],
        # A numbered file of train is no reference: it is left alone.
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
    held_out = corpus.evaluation_set("test")
    # Line by line as in the files; the last two are not scored.
    assert held_out.sources == ("a", "b", "", "d")
    assert held_out.references == (
        ("A", "A2", "A10"),
        ("B", "B1", "B10"),
        ("C", "C1", "C2", "C10"),
        (),
    )
    assert held_out.scored_indices == [0, 1]
    assert list(corpus.pairs("test")) == [
        ("a", "A"),
        ("a", "A2"),
        ("a", "A10"),
        ("b", "B"),
        ("b", "B1"),
        ("b", "B10"),
    ]
    assert list(corpus.pairs("train")) == [("a", "A")]


def test_sides_are_stripped_and_empty_ones_left_out(tmp_path):
    (tmp_path / "train.en").write_bytes(
        "\ufeff a \r\n\r\nc\n \u2028x\n".encode()
    )
    (tmp_path / "train.de").write_bytes("A\nB\n \u00a0\nD\u2028D".encode())
    corpus = _open(f"text:{tmp_path}/")
    assert list(corpus.pairs("train")) == [("a", "A"), ("x", "D D")]


def test_a_missing_train_file_is_named_in_both_forms(tmp_path, write_text):
    with pytest.raises(InputError) as caught:
        _open(f"text:{tmp_path}/x")
    for name in ("x.train.en", "x.train.en.gz", "x.train.de", "x.train.de.gz"):
        assert f"{tmp_path}/{name}" in str(caught.value)
    write_text(tmp_path / "x.train.en", ["a"])
    with pytest.raises(InputError) as caught:
        _open(f"text:{tmp_path}/x")
    assert f"neither {tmp_path}/x.train.de nor {tmp_path}/x.train.de.gz" in str(
        caught.value
    )


def test_a_corpus_for_scoring_needs_no_train(tmp_path, write_text):
    for language in ("en", "de"):
        write_text(tmp_path / f"x.test.{language}", ["a"])
    corpus = _open(f"text:{tmp_path}/x")
    assert corpus.splits() == ("test",)
    with pytest.raises(InputError, match=r"x\.train\.en"):
        corpus.pairs("train")


def test_one_side_of_dev_is_refused(tmp_path, write_text, prefix):
    (tmp_path / "wmt.dev.de").unlink()
    with pytest.raises(InputError, match=r"wmt\.dev\.de\.gz"):
        _open(prefix)


def test_unequal_sides_are_found_while_streaming(tmp_path, write_text, prefix):
    write_text(tmp_path / "wmt.train.de", ["x"] * 5)
    pairs = _open(prefix).pairs("train")
    with pytest.raises(InputError, match=r"train\.en has 3.*train\.de has 5"):
        list(pairs)
    write_text(tmp_path / "wmt.test.de.1", ["x"] * 2)
    with pytest.raises(InputError, match=r"test\.de\.1 has 2"):
        _open(prefix).evaluation_set("test")


@pytest.mark.parametrize("lines", [[], ["", " "]])
def test_an_empty_corpus_is_refused(tmp_path, write_text, lines):
    for language in ("en", "de"):
        write_text(tmp_path / f"x.train.{language}", lines)
    with pytest.raises(InputError, match="holds no sentence pair"):
        _open(f"text:{tmp_path}/x")


def test_broken_files_are_refused_at_once(tmp_path, prefix):
    path = tmp_path / "wmt.dev.en"
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"Line 1 of .*wmt\.dev\.en is"):
        _open(prefix)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="is a folder"):
        _open(prefix)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="Cannot list .*nowhere"):
        _open(f"text:{tmp_path}/nowhere/x")


def test_a_forgotten_slash_is_pointed_out(tmp_path, write_text):
    for language in ("en", "de"):
        write_text(tmp_path / "data" / f"train.{language}", ["a"])
    with pytest.raises(InputError, match=f"write text:{tmp_path}/data/"):
        _open(f"text:{tmp_path}/data")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (None, None, "for: de, en"),
        ("en", None, "for: de, en"),
        ("en", "en", "both 'en'.*de, en"),
        ("en", "fr", r"train\.fr"),
        ("fr", "de", r"train\.fr"),
        ("../en", "de", "not a language code"),
        ("", "de", "not a language code"),
    ],
)
def test_languages_are_checked(prefix, source, target, message):
    with pytest.raises(InputError, match=message) as caught:
        _open(prefix, source, target)
    assert "\n" not in str(caught.value)


def test_an_unknown_language_lists_those_there(prefix):
    with pytest.raises(InputError, match="train is there for: de, en"):
        _open(prefix, "fr", "it")


def test_special_characters_in_the_prefix_are_only_characters(
    tmp_path, write_text
):
    for language in ("en", "de"):
        write_text(tmp_path / "a[b]*" / f"c?.train.{language}", ["x"])
        write_text(tmp_path / "a[b]*" / f"c?.test_1.{language}", ["y"])
    assert _open(f"text:{tmp_path}/a[b]*/c?").splits() == ("train", "test")


def test_the_home_folder_may_be_a_tilde(tmp_path, write_text, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for language in ("en", "de"):
        write_text(tmp_path / "d" / f"train.{language}", ["x"])
    assert _open("text:~/d/").splits() == ("train",)


def test_a_relative_prefix(tmp_path, prefix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _open("text:wmt").splits() == ("train", "dev", "test")


def test_an_empty_prefix_is_refused():
    with pytest.raises(InputError, match="needs a prefix"):
        _open("text:")


def test_an_unknown_split_is_refused_at_the_call(prefix):
    with pytest.raises(InputError, match="no 'validation' split"):
        _open(prefix).pairs("validation")


def test_the_fingerprint_follows_every_file(tmp_path, write_text, prefix):
    corpus = _open(prefix)
    seen = {corpus.fingerprint(), _open(prefix, "de", "en").fingerprint()}
    assert corpus.fingerprint() == _open(prefix).fingerprint()
    for path in sorted(tmp_path.iterdir()):
        write_text(path, ["changed", "b", "c"])
        seen.add(_open(prefix).fingerprint())
    assert len(seen) == 2 + 6


@pytest.mark.skipif(
    not MULTI30K.exists(), reason="../shared/data/multi30k is not there"
)
def test_multi30k():
    corpus = _open(f"text:{MULTI30K}/tok/")
    counts = {
        split: len(list(corpus.pairs(split))) for split in corpus.splits()
    }
    assert counts == {"train": 29000, "dev": 1014, "test": 1000}
    german = corpus.evaluation_set("test").reference_streams()[0]
    assert sum(len(sentence.split()) for sentence in german) == 12103
