import pytest

from export.errors import InputError
from trainers.corpora import open_corpus
from trainers.corpora.corpus import resolve_languages


@pytest.mark.parametrize("name", ["", "tatoeba-en-de", "file:x y", "../x"])
def test_an_unknown_name_lists_what_is_possible(name):
    with pytest.raises(InputError) as caught:
        open_corpus(name, None, None)
    for possible in (
        "tatoeba-en-fr",
        "text:PREFIX",
        "trees:PREFIX",
        "wmt14_translate/de-en",
    ):
        assert possible in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (None, None, ("en", "fr")),
        ("en", None, ("en", "fr")),
        ("fr", None, ("fr", "en")),
        (None, "en", ("fr", "en")),
        (None, "fr", ("en", "fr")),
        ("fr", "en", ("fr", "en")),
    ],
)
def test_the_direction_of_two_languages(source, target, expected):
    both = ("en", "fr")
    assert resolve_languages("x", both, source, target, both) == expected


@pytest.mark.parametrize(
    ("source", "target", "default", "message"),
    [
        ("it", "fr", None, "no language 'it'; it has de, en, fr"),
        ("en", "it", None, "no language 'it'; it has de, en, fr"),
        ("en", "en", None, "both 'en'.*de, en, fr"),
        ("en", None, ("en", "fr"), "needs a source and a target"),
        (None, None, None, "needs a source and a target.*de, en, fr"),
    ],
)
def test_directions_that_are_refused(source, target, default, message):
    with pytest.raises(InputError, match=message):
        resolve_languages("x", ("de", "en", "fr"), source, target, default)
