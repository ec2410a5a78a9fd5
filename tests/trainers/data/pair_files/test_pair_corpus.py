"""TSV, JSON lines, Parquet, Hugging Face data sets: names, columns, lines."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainers import cipher
from tests.trainers.data.memory_corpus import prepare, refused
from trainers.data import open_corpus
from trainers.data.pair_files import readers

PAIRS = [("a\u4e2d 1", 'b "2"'), ("c", "d"), ("e", "é")]
ROWS = [(source, (target,)) for source, target in PAIRS]


def _open(dataset, source="en", target="fr"):
    return open_corpus(dataset, source, target)


def _train(dataset, *languages):
    return list(_open(dataset, *languages).pairs("train"))


def _write_parquet(path, records):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(records), path, row_group_size=2)


def _write(path, records):
    """Writes objects as JSON lines or Parquet."""
    if path.suffix == ".parquet":
        _write_parquet(path, records)
    else:
        path.write_text("".join(f"{json.dumps(each)}\n" for each in records))


@pytest.mark.parametrize(
    ("columns", "first", "fields"),
    [
        ("", None, (0, 1)),
        ("#1,3", None, (0, 2)),
        ("#3,1", None, (2, 0)),
        ("", ("id", "fr-FR", "en_US"), (2, 1)),
        ("#text,fr", ("fr", "x", "text"), (2, 0)),
    ],
)
def test_columns_of_tsv(tmp_path, write_text, columns, first, fields):
    size = max(fields) + 1
    lines = [first] if first else []
    for pair in PAIRS:
        cells = ["?"] * size
        for field, text in zip(fields, pair):
            cells[field] = text
        lines.append(cells)
    for name in ("corpus.txt", "corpus.tsv.gz"):
        write_text(tmp_path / name, ["\t".join(line) for line in lines])
        assert _train(f"tsv:{tmp_path}/{name}{columns}") == PAIRS


CELL = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=5)
TABLE = st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=6)


@settings(max_examples=20)
@given(TABLE, st.sampled_from([["a", "b"], ["en", "fr"]]))
def test_every_line_of_tsv_is_read_or_shown(tmp_path_factory, table, first):
    """Compared with the reader of the standard library."""
    path = tmp_path_factory.getbasetemp() / "table.tsv"
    lines = ["\t".join(cells) + "\n" for cells in (first, *table)]
    path.write_text("".join(lines), "utf-8")
    skipped = readers.Skipped()
    rows = list(readers.read_tsv(path, ("en", "fr"), None, skipped.add))
    text = io.StringIO("".join(lines), newline="")
    cells = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
    good, bad = [], []
    for number, line in enumerate(cells, 1):
        if len(line) == 2:
            good.append((line[0], (line[1],)))
        elif line:
            bad.append(f"line {number}: ")
    # Names of languages are no pair.
    assert rows == good[first[0] == "en" :]
    assert skipped.count == len(bad)
    assert all(map(str.startswith, skipped.examples, bad))


RECORDS = [
    ("", lambda en, fr: {"id": 1, "fr": fr, "en": en}),
    ("", lambda en, fr: {"fr_FR": fr, "de": "x", "en-US": en}),
    ("", lambda en, fr: {"en_a": 0.5, "en_b": "x", "en": en, "fr": fr}),
    ("", lambda en, fr: {"translation": {"de": "x", "en": en, "fr": fr}}),
    ("#text,to.de", lambda en, fr: {"text": en, "to": {"de": fr, "en": "x"}}),
    ("#a.b,fr", lambda en, fr: {"a.b": en, "fr": fr, "en": "x"}),
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(("columns", "record"), RECORDS)
def test_keys(tmp_path, kind, columns, record):
    path = tmp_path / f"corpus.{kind}"
    _write(path, [record(*pair) for pair in PAIRS])
    assert _train(f"{kind}:{path}{columns}") == PAIRS


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_malformed_pairs_are_shown_once(tmp_path, capsys, kind):
    record = {"en": "a", "fr": "b"}
    records = [{"en": "a", "fr": None}, record, *[{"en": "a"}] * 6, record]
    _write(tmp_path / f"x.{kind}", records)
    corpus = _open(f"{kind}:{tmp_path}/x.{kind}")
    assert capsys.readouterr().err == ""
    assert [*corpus.pairs("train")] == [*corpus.pairs("train")]
    err = capsys.readouterr().err.splitlines()
    assert "7 malformed" in err[0] and len(err) == 1 + 5
    for number, line in zip((1, 3, 4, 5, 6), err[1:]):
        assert f" {number}: no text in fr" in line


def test_malformed_json(tmp_path):
    bad = ["{", "[]", "1", '{"en": 1, "fr": "b"}', "[" * 99999, "null"]
    bad += ['{"en": "\\ud83d", "fr": "b"}', '{"translation": ["a", "b"]}']
    good = ['{"en": "\\ud83d\\ude00", "fr": "\\u0000b\\n"}', "", " "]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(good + bad + good))
    skipped = readers.Skipped()
    rows = list(readers.read_jsonl(path, ("en", "fr"), None, skipped.add))
    assert rows == [("\U0001f600", ("\0b\n",))] * 2
    assert skipped.count == len(bad)
    assert _train(f"jsonl:{path}") == [("\U0001f600", "b")] * 2


def test_names_of_splits(tmp_path, monkeypatch):
    def write(name, text):
        _write(tmp_path / name, [{"en": text, "fr": text}])

    for name in ("train-00001-of-00002", "train-00000-of-00002", "test"):
        write(f"{name}.jsonl", name)
    write("validation.jsonl", "dev")
    write("a.train.jsonl", "a")
    write("a.dev.jsonl", "b")
    corpus = _open(f"jsonl:{tmp_path}/")
    assert corpus.splits() == ("train", "dev", "test")
    assert [source[:11] for source, _ in corpus.pairs("train")] == [
        *("train-00000", "train-00001")
    ]
    assert corpus.evaluation_set("dev").references == (("dev",),)
    before = corpus.fingerprint()
    write("validation.jsonl", "changed")
    assert _open(f"jsonl:{tmp_path}/").fingerprint() != before
    monkeypatch.chdir(tmp_path)
    assert _train("jsonl:a") == _train("jsonl:a.train.jsonl") == [("a", "a")]
    # Paths in a mixture are relative to its file.
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mixture.toml").write_text(
        '[[corpora]]\ndataset = "jsonl:../a#en,fr"\n'
        'source_language = "en"\ntarget_language = "fr"\n'
    )
    mixture = open_corpus("mixture:folder/mixture.toml", None, None)
    assert list(mixture.pairs("train")) == [("a", "a")]


def test_a_preparation_is_that_of_text_files(tmp_path):
    cipher.write(tmp_path)
    languages = cipher.SOURCE, cipher.TARGET
    text = open_corpus(f"text:{tmp_path}/toy", *languages)
    for split in text.splits():
        units = "".join(
            f"<tu><tuv xml:lang='{languages[0]}'><seg>{source}</seg></tuv>"
            f"<tuv xml:lang='{languages[1]}-XX'><seg>{target}</seg></tuv></tu>"
            for source, target in text.pairs(split)
        )
        path = tmp_path / f"toy.{split}.tmx"
        path.write_text(f"<tmx><body>{units}</body></tmx>", "utf-8")
    pairs = open_corpus(f"tmx:{tmp_path}/toy", *languages)
    prepared = [
        prepare(tmp_path / corpus.name[:3], corpus, vocabulary=None)
        for corpus in (text, pairs)
    ]
    first, second = (each.manifest for each in prepared)
    assert first.splits["train"].num_pairs > 100
    assert first.splits == second.splits
    assert first.test_sha256 == second.test_sha256


def test_hugging_face_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = pytest.importorskip("datasets")
    records = [
        {"id": 1, "translation": dict(zip(("en", "fr"), pair))}
        for pair in PAIRS
    ]
    data = datasets.Dataset.from_list(records)
    saved = datasets.DatasetDict({"train": data, "validation": data})
    saved.save_to_disk(tmp_path / "saved")
    data.save_to_disk(tmp_path / "one")
    (tmp_path / "files").mkdir()
    data.to_parquet(tmp_path / "files" / "test-00000-of-00001.parquet")
    for name, split in (
        ("saved", "train"),
        ("saved", "dev"),
        ("one", "train"),
        ("files", "test"),
    ):
        corpus = _open(f"hf:{tmp_path}/{name}", "fr", "en")
        assert [pair[::-1] for pair in corpus.pairs(split)] == PAIRS
        assert corpus.fingerprint() == _open(corpus.name).fingerprint()
    with refused("cannot open"):
        _open(f"hf:{tmp_path}/nowhere")


def test_refusals(tmp_path, write_text):
    write_text(tmp_path / "x.tsv", ["a\tb\tc"])
    write_text(tmp_path / "y.tsv", ["a\t", "\tb"])
    write_text(tmp_path / "z.parquet", ["PAR1"])
    (tmp_path / "bad.tsv").write_bytes(b"a\tb\n\xff\tb\n")
    _write(tmp_path / "w.jsonl", [{"en": "a", "de": "b"}])
    for dataset, match in (
        ("tsv:", "Expected a data set"),
        (f"tsv:{tmp_path}/x.tsv#1", "Expected a data set"),
        (f"tsv:{tmp_path}/x.tsv#1,", "Expected a data set"),
        (f"tsv:{tmp_path}/x.tsv", r"3 columns \(a, b, c\)"),
        (f"tsv:{tmp_path}/x.tsv#1,4", "3 columns"),
        (f"tsv:{tmp_path}/x.tsv#1,x", "3 columns"),
        (f"tsv:{tmp_path}/y.tsv", "no sentence pair"),
        (f"tsv:{tmp_path}/none", r"none\.train\.tsv"),
        (f"tsv:{tmp_path}/no#where/x", "Cannot list"),
        (f"jsonl:{tmp_path}/w.jsonl", "no sentence pair"),
        (f"parquet:{tmp_path}/z.parquet", "as Parquet"),
    ):
        with refused(match):
            _open(dataset)
    with refused("source and a target"):
        _open(f"tsv:{tmp_path}/y.tsv", None, None)
    corpus = _open(f"tsv:{tmp_path}/bad.tsv")
    with refused(r"bad\.tsv\.test\.tsv"):
        corpus.pairs("test")
    with refused("it has train"):
        corpus.pairs("other")
    with refused("Line 2 .*UTF-8"):
        list(corpus.pairs("train"))
