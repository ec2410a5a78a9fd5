"""Mixtures: tags, how often each pair occurs, dev splits, wrong files."""

import collections

import pytest

from export.common.errors import InputError
from export.tokenizers import load_tokenizer
from tests.trainers.data.memory_corpus import decoded, prepare, refused
from trainers.data import open_corpus
from trainers.data.manifest import Overlap

# Of the letters in train.
SETS = {"train": "train", "dev": "air", "test": "rain"}
SIZES = {"de": 32, "fr": 8, "pt_BR": 2}


@pytest.fixture
def folder(tmp_path, write_text, monkeypatch):
    """Corpora from English to three languages; Portuguese has only train."""
    for language, size in SIZES.items():
        for split in ("train", "dev", "test")[: 1 if "_" in language else 3]:
            count = size if split == "train" else 3
            for side in ("en", language):
                path = tmp_path / f"{language}.{split}.{side}"
                write_text(
                    path, [f"{SETS[split]} {side} {i}" for i in range(count)]
                )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def part(target, source="en", **fields):
    language = target if source == "en" else source
    fields = {
        "dataset": f"text:{language}",
        "source_language": source,
        "target_language": target,
        **fields,
    }
    return "[[corpora]]\n" + "".join(
        f"{name} = {value!r}\n" for name, value in fields.items()
    )


def mixture(folder, *parts, head=""):
    (folder / "m.toml").write_text("\n".join([head, *parts]))
    return open_corpus("mixture:m.toml", None, None)


def counts(corpus):
    """How often each number occurs, by tag."""
    found = collections.defaultdict(collections.Counter)
    for source, target in corpus.pairs("train"):
        tags, text = source.split(" train en ")
        assert target.split()[2] == text
        found[tags][int(text)] += 1
    return found


def test_tags_directions_and_splits(folder):
    corpus = mixture(
        folder, part("de", tag="<bt>"), part("fr"), part("en", source="fr")
    )
    assert (corpus.source_language, corpus.target_language) == ("mul", "mul")
    assert corpus.splits() == ("train", "dev-1", "dev-2", "dev-3", "test")
    assert corpus.tags == (">>de<<", "<bt>", ">>fr<<", ">>en<<")
    assert next(corpus.pairs("train")) == (
        ">>de<< <bt> train en 0",
        "train de 0",
    )
    assert corpus.directions["dev-3"] == ("fr", "en")
    assert list(corpus.pairs("dev-3"))[0] == (">>en<< air fr 0", "air en 0")
    (_, first), _, (direction, last) = corpus.evaluation_set(
        "test"
    ).by_direction()
    # Without tags of languages, which a translator adds.
    assert first.sources == tuple(f"<bt> rain en {i}" for i in range(3))
    assert (direction, last.references[0]) == (("fr", "en"), ("rain en 0",))


@pytest.mark.parametrize("temperature", [1, 1.5, 2, 100])
def test_each_pair_occurs_as_often_as_its_share(folder, temperature):
    """p ~ weight N^(1/T), and every pair at least once."""
    corpus = mixture(
        folder,
        *(part("de"), part("fr", weight=1.5), part("pt_BR")),
        head=f"temperature = {temperature}",
    )
    found = counts(corpus)
    assert corpus.source_language == "en"
    rates = {
        language: (1.5 if language == "fr" else 1)
        * size ** (1 / temperature - 1)
        for language, size in SIZES.items()
    }
    least = min(rates.values())
    for language, rate in rates.items():
        numbers = found[f">>{language}<<"]
        assert len(numbers) == SIZES[language]
        exact = rate / least
        assert min(numbers.values()) >= max(1, int(exact))
        assert max(numbers.values()) <= exact + 1
        assert abs(numbers.total() - exact * SIZES[language]) < 1.001


def test_two_corpora_of_one_pair_share_its_temperature(folder):
    """The temperature is for languages; a half of a corpus stays a half."""
    whole = counts(
        mixture(folder, part("de"), part("fr"), head="temperature=2")
    )
    twice = mixture(
        folder, part("de"), part("de"), part("fr"), head="temperature = 2"
    )
    found = counts(twice)
    share = found[">>fr<<"].total() / found[">>de<<"].total()
    # Of 64 sentences: 8^0.5 / 64^0.5 instead of 8^0.5 / 32^0.5.
    assert share == pytest.approx((8 / 64) ** 0.5, abs=0.02)
    share = whole[">>fr<<"].total() / whole[">>de<<"].total()
    assert share == pytest.approx(0.5, abs=0.02)
    assert list(twice.directions.values()) == [("en", "de"), ("en", "fr")]


def test_each_tag_is_one_token_of_the_vocabulary(folder):
    corpus = mixture(folder, part("de", tag="<bt>"), part("fr"))
    prepared = prepare(
        folder / "data",
        corpus,
        vocabulary=None,
        vocabulary_size=60,
    )
    tokenizer = load_tokenizer(prepared.vocabulary)
    (ids,) = tokenizer.source.encode([">>de<< <bt> train"])
    assert [tokenizer.source.id_to_token(i) for i in ids[:2].tolist()] == [
        ">>de<<",
        "▁<bt>",
    ]
    # Only at the beginning.
    inside, plain = tokenizer.source.encode(["train >>de<< a", "train"])
    assert ids[0] not in inside
    assert inside[: len(plain) - 1].tolist() == plain[:-1].tolist()
    splits = prepared.manifest.splits
    assert [*splits] == ["train", "dev-1", "dev-2"]
    assert splits["dev-2"].direction == ("en", "fr")
    sources = [source for source, _ in decoded(prepared, "dev")]
    assert sources[::5] == [">>de<<<bt> air en 0", ">>fr<<air en 2"]
    again = type(prepared)(prepared.folder)
    assert again.test_set() == corpus.evaluation_set("test")
    with pytest.raises(InputError, match=">>pt_BR<<"):
        prepare(
            folder / "other",
            mixture(folder, part("de"), part("pt_BR")),
            vocabulary=prepared.vocabulary,
            vocabulary_size=60,
        )
    assert not (folder / "other").exists()


def test_tags_of_both_languages(folder):
    """The target's is the first token of the target, as in fairseq."""
    both = 'tags = "both"'
    corpus = mixture(folder, part("de", tag="<bt>"), part("fr"), head=both)
    options = {"vocabulary": None, "vocabulary_size": 60}
    prepared = prepare(folder / "data", corpus, **options)
    tokenizer = load_tokenizer(prepared.vocabulary)
    assert tokenizer.source.languages == ("de", "en", "fr")
    pairs = prepared.pairs("dev")
    assert decoded(prepared, "dev")[::5] == [
        (">>en<<>>de<<<bt> air en 0", "air de 0"),
        (">>en<<>>fr<<air en 2", "air fr 2"),
    ]
    first_ids = [pairs.sources([5])[0], pairs.targets([5])[0]]
    assert [tokenizer.target.id_to_token(int(each)) for each in first_ids] == [
        ">>en<<",
        ">>fr<<",
    ]
    given = options | {"vocabulary": prepared.vocabulary}
    single = open_corpus("text:de", "en", "de")
    for number, other in enumerate(
        (
            mixture(folder, part("de"), part("fr")),
            mixture(folder, part("en", source="de"), part("en", source="fr")),
            mixture(folder, part("de"), part("pt_BR"), head=both),
            open_corpus("text:pt_BR", "en", "pt_BR"),
        )
    ):
        with pytest.raises(InputError, match="both|pt_BR|language"):
            prepare(folder / f"no-{number}", other, **given)
        assert not (folder / f"no-{number}").exists()
    # One pair of languages, to fine-tune the model.
    tuned = prepare(folder / "tuned", single, **given)
    assert decoded(tuned, "dev")[0] == (">>en<<>>de<<air en 0", "air de 0")
    # Random segmentations have the tags, too.
    sampled = prepare(folder / "k", corpus, **given, segmentations=2)
    assert {source[:15] for source, _ in decoded(sampled, "train")} == {
        ">>en<<>>de<<<bt",
        ">>en<<>>fr<<tra",
    }


def test_one_pair_of_languages_gets_the_tag_of_its_target(folder):
    options = {"vocabulary": None, "vocabulary_size": 60}
    prepared = prepare(
        folder / "data", mixture(folder, part("de"), part("fr")), **options
    )
    options["vocabulary"] = prepared.vocabulary
    single = open_corpus("text:de", "en", "de")
    tuned = prepare(folder / "tuned", single, **options)
    assert decoded(tuned, "dev")[0][0] == ">>de<<air en 0"
    with pytest.raises(InputError, match="language"):
        prepare(folder / "other", open_corpus("text:de", "de", "en"), **options)


def test_the_fingerprint_has_the_file_and_all_corpora(folder, write_text):
    corpus = mixture(folder, part("de"), part("fr"))
    before = corpus.fingerprint()
    assert mixture(folder, part("de"), part("fr")).fingerprint() == before
    commented = mixture(folder, part("de"), part("fr"), head="# A comment")
    assert commented.fingerprint() == before
    other = mixture(folder, part("de", weight=2), part("fr")).fingerprint()
    write_text(folder / "fr.train.en", ["x"] * 8)
    changed = mixture(folder, part("de"), part("fr")).fingerprint()
    assert len({before, other, changed}) == 3


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("corpora = []", "corpora"),
        ("corpora = 3", "corpora"),
        ("corpora = [3]", "corpora|table"),
        ("a b", "m.toml"),
        ("temperature = 2", "corpora"),
        ("temperature = 0.5\n" + part("de"), "temperature"),
        ("temperature = true\n" + part("de"), "temperature"),
        (f"temperature = 1{'0' * 400}\n" + part("de"), "m.toml"),
        ("a = " + "[" * 5000 + "]" * 5000, "m.toml"),
        ("temperatur = 2\n" + part("de"), "temperatur"),
        ("tags = 'none'\n" + part("de"), "none"),
        (part("de", weight=0), "weight"),
        (part("de", weight="2"), "weight"),
        (part("de", tag="bt"), "bt"),
        (part("de", tag=3), "tag|3"),
        (part("de", name="x"), "name"),
        (part("de", dataset=3), "dataset|3"),
        (part("de", dataset="mixture:m.toml"), "part of a mixture"),
        (part("de", dataset="trees:x"), "trees"),
        (part("de", dataset="text:nothing"), "nothing"),
        (part("pt_BR"), "dev"),
        ("[[corpora]]\ndataset = 'text:de'", "source_language"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(folder, text, match):
    with refused(match):
        mixture(folder, text)


def test_a_byte_order_mark_and_windows_line_ends(folder):
    expected = mixture(folder, part("de")).evaluation_set("test")
    content = part("de").replace("\n", "\r\n").encode("utf-8-sig")
    (folder / "m.toml").write_bytes(content)
    corpus = open_corpus("mixture:m.toml", None, None)
    assert corpus.evaluation_set("test") == expected


def test_rows_are_in_the_order_of_the_directions(folder):
    """As they are scored, so that --output and --references agree."""
    corpus = mixture(folder, part("de"), part("fr"), part("de"))
    whole = corpus.evaluation_set("dev")
    parts = [each for _, each in whole.by_direction()]
    assert whole.sources == sum((each.sources for each in parts), ())
    assert whole.directions == (("en", "de"),) * 6 + (("en", "fr"),) * 3
    for split in ("dev-1", "other"):
        with pytest.raises(InputError, match="split"):
            corpus.evaluation_set(split)


@pytest.mark.parametrize("tags", ["target", "both"])
def test_the_ratio_of_lengths_is_without_tags(folder, write_text, tags):
    parts = part("de"), part("fr")
    options = {"vocabulary": None, "vocabulary_size": 60}
    corpus = mixture(folder, *parts, head=f"tags = {tags!r}")
    options["vocabulary"] = prepare(folder / "v", corpus, **options).vocabulary
    lines = {"en": "a r t i n", "de": "a r"}
    for side, line in lines.items():
        write_text(folder / f"de.train.{side}", [line] * 8)
    target = load_tokenizer(options["vocabulary"]).target
    lengths = [len(each) - 1 for each in target.encode([*lines.values()])]
    ratio = lengths[0] / lengths[1]
    corpus = mixture(folder, *parts, head=f"tags = {tags!r}")
    for limit, removed in (ratio, 0), (ratio - 0.01, 8):
        prepared = prepare(
            folder / f"{removed}",
            corpus,
            **options,
            cleaning={"max_ratio": limit},
        )
        assert prepared.manifest.splits["train"].cleaning.ratio == removed


def test_tags_that_the_normalization_changes_are_named(folder):
    options = {"vocabulary": None, "vocabulary_size": 60}
    corpus = mixture(folder, part("de", tag="<BT>"), part("fr"))
    with pytest.raises(InputError, match="normalization"):
        prepare(folder / "data", corpus, **options, normalization="nmt_nfkc_cf")


def test_the_languages_are_those_of_the_file(folder):
    mixture(folder, part("de"))
    with pytest.raises(InputError, match="source_language"):
        open_corpus("mixture:m.toml", "en", None)
    with pytest.raises(InputError, match="missing.toml"):
        open_corpus("mixture:missing.toml", None, None)


def test_paths_are_relative_to_the_file(folder, write_text, monkeypatch):
    for language in ("en", "nl"):
        for split in ("train", "dev"):
            write_text(folder / f"nl/{split}.{language}", ["a rain"])
    parts = [part("de"), part("nl", dataset="text:nl/")]
    here = mixture(folder, *parts)
    content = [[*here.pairs(split)] for split in here.splits()]
    fingerprint = here.fingerprint()
    # An absolute path and a URL are none of the file's.
    parts[1:] = [part("nl", dataset=f"text:{folder}/nl/")]
    absolute = mixture(folder, *parts)
    assert [[*absolute.pairs(each)] for each in absolute.splits()] == content
    mixture(folder, part("de"), part("nl", dataset=f"text:file://{folder}/nl/"))
    elsewhere = folder / "elsewhere" / "below"
    elsewhere.mkdir(parents=True)
    mixture(folder, part("de"), part("nl", dataset="text:nl/"))
    for where, path in (
        (folder.parent, f"{folder.name}/m.toml"),
        (elsewhere, "../../m.toml"),
        (elsewhere, f"file://{folder}/m.toml"),
    ):
        monkeypatch.chdir(where)
        there = open_corpus(f"mixture:{path}", None, None)
        assert there.fingerprint() == fingerprint
        assert [[*there.pairs(each)] for each in there.splits()] == content


def test_evaluation_pairs_in_train_are_counted_without_tags(
    folder, write_text, capsys
):
    for split, source in (("dev", "rain en 1"), ("test", "rain en 2")):
        write_text(folder / f"fr.{split}.en", [f"train en {split}", source] * 2)
        write_text(folder / f"fr.{split}.fr", ["rain", "train", "train", "x"])
    for language in ("en", "fr"):
        write_text(folder / f"bt.train.{language}", ["rain en 1", "train"])
    data = mixture(
        folder, part("fr"), part("fr", dataset="text:bt", tag="<bt>")
    )
    settings = {"vocabulary": None, "vocabulary_size": 40, "max_unknown": 1}
    prepared = prepare(folder / "data", data, **settings)
    overlaps = prepared.manifest.overlaps
    assert overlaps == {"dev-1": Overlap(4, 2, 0), "test": Overlap(4, 0, 0)}
    capsys.readouterr()
    prepared.manifest.print_overlaps()
    assert "2 of the 4 pairs of dev-1, 0 of them" in capsys.readouterr().out
