import pytest
import tensorflow_datasets as tfds

from export.common.errors import InputError
from tests.damage import flip_bit
from tests.trainers.data.memory_corpus import refused
from trainers.data import open_corpus

# More than a batch of 1024 to train on.
PAIRS = {
    "train": [(f"Satz {i}", f"sentence {i}") for i in range(1100)],
    "validation": [(" Tür\u2028 ", "door "), ("", "nothing"), ("leer", " ")],
    "test": [("eins", "one"), ("zwei", "two")],
}
TALKS = {
    "test": [
        {"talk": "t", "sentences": {"en": "a", "de": ["A", "Ä"]}},
        {"talk": "t", "sentences": {"en": "b", "fr": "bé"}},
        {"talk": "t", "sentences": {"de": "C", "fr": "cé"}},
    ]
}


class CorporaFixedPairs(tfds.core.GeneratorBasedBuilder):
    """Translations in two languages, as in WMT."""

    VERSION = tfds.core.Version("1.0.0")
    features = tfds.features.Translation(languages=("de", "en"))
    supervised_keys = ("de", "en")
    content = PAIRS

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=self.features,
            supervised_keys=self.supervised_keys,
        )

    def _split_generators(self, dl_manager):
        return {
            name: self._generate_examples(rows)
            for name, rows in self.content.items()
        }

    def _generate_examples(self, rows):
        for i, row in enumerate(rows):
            yield (
                i,
                row if isinstance(row, dict) else dict(zip(("de", "en"), row)),
            )


class CorporaTalks(CorporaFixedPairs):
    """Translations in any number of languages, and another feature."""

    features = tfds.features.FeaturesDict(
        {
            "talk": tfds.features.Text(),
            "sentences": tfds.features.TranslationVariableLanguages(
                languages=("de", "en", "fr")
            ),
        }
    )
    supervised_keys = None
    content = TALKS


class CorporaPictures(CorporaFixedPairs):
    """No translations at all."""

    features = tfds.features.FeaturesDict({"x": tfds.features.Text()})
    supervised_keys = None


class CorporaByHand(CorporaFixedPairs):
    """A set that needs files downloaded by hand."""

    MANUAL_DOWNLOAD_INSTRUCTIONS = "Get pairs.txt."

    def _split_generators(self, dl_manager):
        lines = (dl_manager.manual_dir / "pairs.txt").read_text().split("\n")
        return {"train": self._generate_examples([tuple(lines[:2])])}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("tfds")


def _open(name, data_dir, source=None, target=None, manual_dir=None):
    manual_dir = manual_dir and str(manual_dir)
    return open_corpus(name, source, target, str(data_dir), manual_dir)


def test_pairs_in_both_directions(data_dir):
    for languages, expected, step in (
        ((None, None), ("de", "en"), 1),
        (("en", None), ("en", "de"), -1),
    ):
        corpus = _open("corpora_fixed_pairs", data_dir, *languages)
        assert (corpus.source_language, corpus.target_language) == expected
        assert corpus.splits() == ("train", "dev", "test")
        read = list(corpus.pairs("train"))
        assert sorted(read) == sorted(pair[::step] for pair in PAIRS["train"])
        assert read == list(corpus.pairs("train"))
    # Validation is dev, and pairs need both sides.
    dev = corpus.evaluation_set("dev")
    assert dev.sources == ("door", "", "nothing")
    assert dev.references[0] == ("Tür",)
    assert list(corpus.pairs("dev")) == [("door", "Tür")]


def test_any_number_of_languages(data_dir):
    corpus = _open("corpora_talks", data_dir, "en", "de")
    assert corpus.splits() == ("test",)
    assert corpus.evaluation_set("test").references == (("A", "Ä"),)
    back = _open("corpora_talks", data_dir, "de", "en")
    assert sorted(back.pairs("test")) == [("A", "a"), ("Ä", "a")]
    french = _open("corpora_talks", data_dir, "fr", "de")
    assert list(french.pairs("test")) == [("cé", "C")]
    with pytest.raises(InputError, match="'train'.* it has test"):
        corpus.pairs("train")


def test_refusals(data_dir):
    for name, source, target, message in (
        ("corpora_fixed_pairs", "fr", "en", "'fr'; it has de, en"),
        ("corpora_fixed_pairs", "en", "en", "both 'en'.*de, en"),
        ("corpora_talks", None, None, "available: de, en, fr"),
        ("corpora_pictures", None, None, "not a translation data set"),
        ("corpora_nowhere", None, None, "corpora_nowhere.*wmt14_translate"),
        ("wmt14_translate/xx-en", None, None, "xx-en"),
    ):
        with refused(message):
            _open(name, data_dir, source, target)


def test_files_downloaded_by_hand(tmp_path):
    # A language is refused before anything is prepared.
    with pytest.raises(InputError):
        _open("corpora_fixed_pairs", tmp_path, "xx", "en")
    assert not list(tmp_path.rglob("*.tfrecord*"))
    by_hand = tmp_path / "by_hand"
    by_hand.mkdir()
    with pytest.raises(InputError, match="--manual_dir"):
        _open("corpora_by_hand", tmp_path, manual_dir=by_hand)
    (by_hand / "pairs.txt").write_text("Hand\nhand")
    corpus = _open("corpora_by_hand", tmp_path, manual_dir=by_hand)
    assert list(corpus.pairs("train")) == [("Hand", "hand")]


def test_the_fingerprint_follows_data_and_direction(tmp_path, monkeypatch):
    def fingerprint(folder, source="de"):
        folder = tmp_path / folder
        return _open("corpora_fixed_pairs", folder, source).fingerprint()

    first = fingerprint("a")
    assert fingerprint("a") == first
    assert fingerprint("a", "en") != first
    changed = PAIRS | {"test": [("eins", "one"), ("drei", "six")]}
    monkeypatch.setattr(CorporaFixedPairs, "content", changed)
    assert fingerprint("b") != first
    # A damaged file is refused.
    corpus = _open("corpora_fixed_pairs", tmp_path / "b")
    (path,) = (tmp_path / "b").rglob("*test.tfrecord*")
    flip_bit(path)
    with pytest.raises(InputError, match="cannot be read"):
        list(corpus.pairs("test"))
