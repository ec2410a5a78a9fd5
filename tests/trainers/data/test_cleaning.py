"""Rules that remove training pairs, beside brute force."""

import functools
import random
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.tokenizers.tokenizer import Tokenizer
from tests.trainers import cipher
from tests.trainers.data.interruptions import Killed, at_write
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    assert_refused,
    byte_vocabulary,
    contents,
    decoded,
    prepare,
    rows,
    splits,
    vocabulary,
)
from trainers.augmentation.copies import add_copies
from trainers.data import cleaning
from trainers.data.cleaning import DuplicateFinder
from trainers.data.codecs import make_codec
from trainers.data.manifest import CleaningCounts
from trainers.data.removed_pairs import merge_samples, sample_pairs
from trainers.data.vocabulary import (
    make_normalizer,
    make_text_normalizer,
    normalization_name,
)

pytestmark = pytest.mark.usefixtures("small_shards")

RULES = {"max_ratio": 2.0, "drop_duplicates": True, "check_languages": True}


class _Repeated(MemoryCorpus):
    """Each pair of train as often as its target, a number, says."""

    def repeated_pairs(self, split):
        return ((pair, int(pair[1])) for pair in self.pairs(split))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3))))
def test_duplicates_are_found(pairs):
    pairs = [("a", 1), *pairs]
    train = [(source, (str(times),)) for source, times in pairs]
    finder = DuplicateFinder()
    corpus = _Repeated({"train": train})
    stream = list(finder.read_pairs(corpus))
    assert stream == [(s, str(n)) for s, n in pairs for _ in range(n)]
    expected, seen = [], set()
    for pair in pairs:
        # What the corpus repeats is no duplicate.
        expected += [pair not in seen] * pair[1]
        seen.add(pair)
    assert finder.find_unique().tolist() == expected


TEXTS = st.text("ab \u200b\u3000\uff21²é\u0301\u2581\ufffd").map(str.strip)


@pytest.mark.parametrize("name", ["nmt_nfkc", "nmt_nfc", "nfkc_cf", "identity"])
@given(text=TEXTS)
def test_rules_see_the_text_that_the_model_sees(name, text):
    normalized = make_normalizer(name).normalize(text).replace("\u2581", " ")
    assert make_text_normalizer(name)(text) == normalized.strip()


@pytest.mark.parametrize(
    ("choice", "squares", "rules"),
    # Many squares choose nmt_nfc, for which m² is not m2.
    [
        ("auto", 1, "nmt_nfkc"),
        ("auto", 40, "nmt_nfc"),
        ("nmt_nfc", 1, "nmt_nfc"),
        ("identity", 1, "identity"),
    ],
)
def test_duplicates_are_those_of_normalized_text(
    tmp_path, choice, squares, rules
):
    train = cipher.sentences(300, 1)
    train += [(" ".join(["m²"] * squares), "y"), ("m² b", "y"), ("m2 b", "y")]
    train += [("m2  b", "y"), ("m2\u3000b", "y"), ("m2 b", "\u001by")]
    normalizer = make_normalizer(rules)
    unique = {tuple(normalizer.normalize([*pair])) for pair in train}
    prepared = prepare(
        tmp_path,
        MemoryCorpus({"train": [(source, (t,)) for source, t in train]}),
        vocabulary=None,
        normalization=choice,
        cleaning={"drop_duplicates": True},
        max_unknown=1,
    )
    assert normalization_name(prepared.vocabulary) == rules
    counts = prepared.manifest.splits["train"].cleaning
    assert counts.duplicate == len(train) - len(unique)


def test_near_duplicates_differ_in_marks_and_case(tmp_path):
    pairs = [
        *(("A b, c!", "x y"), ("a  b c", "X y."), ("a b c", "x z")),
        *(("a b 1", "x"), ("a b 2", "x"), ("...", "!"), ("?", "!"), ("?", "!")),
        # ki and kā.
        *(("\u0915\u093f", "x"), ("\u0915\u093e", "x")),
    ]
    for near, expected in ((False, 1), (True, 2)):
        prepared = prepare(
            tmp_path / str(near),
            MemoryCorpus({"train": [(one, (other,)) for one, other in pairs]}),
            cleaning={
                "drop_duplicates": not near,
                "drop_near_duplicates": near,
            },
            max_unknown=1,
        )
        split = prepared.manifest.splits["train"]
        assert split.cleaning.by_rule() == {"duplicate": expected}


def test_languages_are_those_of_normalized_text(languages):
    codec = make_codec("text", {"vocabulary.model": vocabulary()})
    pair, codes = ("\ufeff\u2581ba", "yz"), (cipher.SOURCE, cipher.TARGET)
    assert cleaning.has_languages(pair, codes, codec.normalizers)
    assert not cleaning.has_languages(pair, codes)


@pytest.fixture
def languages(monkeypatch):
    """A stand-in for py3langid: text is in the language of its letters."""

    def classify(text):
        if text.startswith("?"):
            return "und", 0.1
        letters = set(text) - set(" .")
        is_source = letters <= set("abdeiklmnoprstu")
        return (cipher.SOURCE if is_source else cipher.TARGET), 0.9

    identifier = types.SimpleNamespace(
        labels=[cipher.SOURCE, cipher.TARGET], classify=classify
    )
    monkeypatch.setattr(cleaning, "_load_identifier", lambda: identifier)


def _train():
    """Pairs of which every rule removes some, in all shards."""
    train = cipher.sentences(60, 1)
    for number in range(5, 60, 9):
        source, target = train[number]
        train[number] = train[number // 2]
        train[number - 1] = (f"{source} {source} {source}", target)
        train[number - 2] = (target, target)
        train[number - 3] = (f"?{target}", target)
        train[number - 4] = (source, source)
    return train


def _expected(pairs, tokenizer):
    """The pairs that stay, and the CleaningCounts, one after another."""
    kept, seen = [], set()
    removed = {"duplicate": [], "language": [], "ratio": []}
    source_letters = set("abdeiklmnoprstu .")
    for source, target in pairs:
        lengths = [len(tokenizer.encode([t])[0]) - 1 for t in (source, target)]
        if (source, target) in seen:
            removed["duplicate"].append((source, target))
        elif set(target) <= source_letters or not (
            source.startswith("?") or set(source) <= source_letters
        ):
            removed["language"].append((source, target))
        elif max(lengths) / min(lengths) > 2:
            removed["ratio"].append((source, target))
        else:
            kept.append((source, target))
        seen.add((source, target))
    counts = {rule: len(each) for rule, each in removed.items()}
    return kept, CleaningCounts(**counts), removed


def test_counts_and_pairs_are_those_of_brute_force(
    tmp_path, languages, monkeypatch
):
    pairs = _train()
    train = [(source, (target,)) for source, target in pairs]
    # Dev and test are not cleaned.
    corpus = MemoryCorpus(splits(train=train, dev=train))
    settings = byte_vocabulary() | {"copy_rate": 0.5, "max_unknown": 1}
    tokenizer = Tokenizer(settings["vocabulary"])
    kept, counts, removed = _expected(pairs, tokenizer)
    assert min(counts.duplicate, counts.language, counts.ratio) > 1
    prepared = prepare(tmp_path / "data", corpus, cleaning=RULES, **settings)
    split = prepared.manifest.splits["train"]
    assert split.cleaning.by_rule() == counts.by_rule()
    for rule, examples in split.cleaning.examples.items():
        assert len(examples) == min(len({*removed[rule]}), 10)
        assert {(one, other) for _, one, other in examples} <= {*removed[rule]}
    assert split.num_read == 60 and split.num_too_long == 0
    assert split.num_pairs == 60 - counts.total
    # Copies are added after all rules.
    assert decoded(prepared, "train") == [*add_copies(iter(kept), 0.5)]
    assert prepared.manifest.splits["dev"].num_pairs == 60
    prepare(tmp_path / "3", corpus, cleaning=RULES, workers=3, **settings)
    assert contents(tmp_path / "3") == contents(tmp_path / "data")
    folder = tmp_path / "killed"
    with at_write(monkeypatch, 6), pytest.raises(Killed):
        prepare(folder, corpus, cleaning=RULES, **settings)
    prepare(folder, corpus, cleaning=RULES, workers=2, **settings)
    assert contents(folder) == contents(tmp_path / "data")


def test_examples_are_the_same_for_any_parts():
    pairs = [(f"a {number}", f"b {number % 7}") for number in range(100)]
    whole = sample_pairs(pairs)
    assert len({*whole}) == 10
    parts = [
        sample_pairs(pairs[start : start + 9]) for start in range(0, 99, 7)
    ]
    random.Random(1).shuffle(parts)
    assert functools.reduce(merge_samples, parts) == whole
    # A sample is not the beginning.
    assert max(int(source[2:]) for _, source, _ in whole) > 20


def test_each_segmentation_has_the_same_pairs(tmp_path):
    pairs = _train()
    train = [(source, (target,)) for source, target in pairs]
    rules = {"drop_duplicates": True}
    prepared = prepare(
        tmp_path,
        MemoryCorpus({"train": train}),
        cleaning=rules,
        segmentations=3,
        max_unknown=1,
    )
    split = prepared.manifest.splits["train"]
    unique = len(dict.fromkeys(pairs))
    assert (split.num_read, split.num_pairs) == (180, 3 * unique)
    assert split.cleaning.by_rule() == {"duplicate": 180 - 3 * unique}


def test_the_vocabulary_is_of_clean_pairs(tmp_path, languages):
    train = rows(400, 1)
    # A word of other letters, repeated or in another language.
    duplicates = [(f"quux {i}", (f"quux {i}",)) for i in range(3)] * 50
    other = MemoryCorpus({"train": [*train, *duplicates[:3]]})
    repeated = MemoryCorpus({"train": [*train, *duplicates]})
    options = {"vocabulary": None, "vocabulary_size": 70, "max_unknown": 1}
    contents_of = []
    for name, corpus in (("a", other), ("b", repeated)):
        rules = {"drop_duplicates": True}
        data = prepare(tmp_path / name, corpus, cleaning=rules, **options)
        contents_of.append(data.vocabulary)
    assert contents_of[0] == contents_of[1]
    rules = {"check_languages": True}
    data = prepare(tmp_path / "c", repeated, cleaning=rules, **options)
    clean = prepare(tmp_path / "d", MemoryCorpus({"train": train}), **options)
    assert data.vocabulary == clean.vocabulary


def test_languages_that_cannot_be_checked(tmp_path, monkeypatch, languages):
    rules = {"check_languages": True}
    corpus = MemoryCorpus(splits())
    corpus.source_language = "qq_QQ"
    assert_refused("'qq_QQ'", tmp_path / "data", corpus, cleaning=rules)
    mixed = MemoryCorpus(splits())
    mixed.tags = (">>xx<<",)
    assert_refused("mixture", tmp_path / "data", mixed, cleaning=rules)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    cleaning._load_identifier.cache_clear()
    assert_refused("pip install", tmp_path / "data", cleaning=rules)
    assert not (tmp_path / "data").exists()


def test_py3langid_knows_sentences():
    pytest.importorskip("py3langid")
    english = "The weather is fine today, and we walk through the park."
    german = "Das Wetter ist heute schön, und wir gehen durch den Park."
    languages = ("en", "de_AT")
    cleaning.validate_languages(
        types.SimpleNamespace(source_language="en", target_language="de_AT")
    )
    assert cleaning.has_languages((english, german), languages)
    assert cleaning.has_languages(("1984", "1984"), languages)
    assert not cleaning.has_languages((german, german), languages)
    assert not cleaning.has_languages((english, english), languages)


@pytest.mark.parametrize("name", [*RULES, "segmentations"])
def test_rules_are_for_text(tmp_path, name):
    corpus = MemoryCorpus(splits())
    corpus.kind = "trees"
    rule = (RULES | {"segmentations": 2})[name]
    changes = {"cleaning": {name: rule}}
    if name == "segmentations":
        changes = {name: rule}
    assert_refused(f"--{name} is for text", tmp_path, corpus, **changes)


def test_no_pair_left_is_refused(tmp_path):
    train = [("ba " * 20, ("yz",))] * 9
    corpus = MemoryCorpus({"train": train})
    rules = {"max_ratio": 2.0}
    assert_refused("9 were removed", tmp_path, corpus, cleaning=rules)
