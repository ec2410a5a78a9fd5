"""Addresses, emoji, numbers and rare words that translations contain."""

import re

import pytest

from export.common.errors import InputError
from export.terms.kept_items import KINDS, MAX_ITEMS, find_items
from export.terms.terms import Term, Terms
from export.tokenizers.tokenizer import Tokenizer
from export.translators.signature_backend import SignatureBackend
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import commands, tiny


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("see https://a.b/c?d=1. Or me@x.org,", "https://a.b/c?d=1 me@x.org"),
        (
            "看http://a.b/c了解，我@x.org（http://a.b/c/犬）",
            "http://a.b/c http://a.b/c/犬",
        ),
        ("请发me@x.org谢谢", "me@x.org"),
        ("1️⃣a 3 #️⃣ ©️ ‼️ © !", "1️⃣ #️⃣ ©️ ‼️"),
        ("Hi😀! 👍🏽👍🏽, ❤️a 😀", "😀 👍🏽👍🏽 ❤️"),
        ("a ǯa, l'ǯe ǯ", "ǯa ǯe ǯ"),
        ("12 $345 (6789) 5000円 -77", "12 345 6789 5000 77"),
        # Single digits, times, dates, parts of words.
        ("5 2:30 1.2.2020 12/5/2020 x12 12kg 1,23,456", ""),
        ("555-1234-56 2010-2015", "555-1234-56 2010 2015"),
        # Versions, in which no comma may be written.
        ("v 0.85.x, 1.20.X. 3.x", "0.85.x 1.20.X"),
        ("https://a.b/1234 is 1234", "https://a.b/1234 1234"),
        ("https://a.b|c/d", ""),
    ],
)
def test_items_of_a_text(text, items):
    kinds = {*KINDS} - {"placeholders"}
    found = find_items(text, kinds, {"ǯa", "ǯe", "ǯ"})
    assert [*found] == items.split()
    assert all(variants[0] == item for item, variants in found.items())
    assert not find_items(text, ())


@pytest.mark.parametrize(
    ("number", "variants"),
    [
        ("1,234.5", "1,234.5 1.234,5 1_234.5 1_234,5 1234.5 1234,5"),
        ("1.234", "1.234 1,234 1_234 1234"),
        ("10_000_000", "10_000_000 10,000,000 10.000.000 10000000"),
        ("3.14", "3.14 3,14"),
        ("3,14159", "3,14159 3.14159"),
        ("0.125", "0.125 0,125"),
        ("12345.678", "12345.678 12345,678"),
        ("1234", "1234"),
    ],
)
def test_numbers_may_have_other_marks(number, variants):
    (found,) = find_items(number.replace("_", " "), KINDS).values()
    found = [each.replace(" ", "_") for each in found]
    assert found[0] == number and {*found} == {*variants.split()}


def test_terms_come_before_items():
    terms = Terms([("Route 66", "N 66"), ("ba", "do")], keep=KINDS)
    assert terms.find("ba.org, www.ba.org/ka on Route 66, 77") == [
        Term("ba", "do"),
        Term("Route 66", "N 66"),
        Term("www.ba.org/ka", "www.ba.org/ka", True),
        Term("77", "77", True),
    ]
    with pytest.raises(InputError, match="faces"):
        Terms(keep=["faces"])


TEXTS = [
    "ba ka 😀.",
    "ba!😀 ka😀",
    "ba ǯak 1,234 ka https://ba.org/ka",
    "5050 5050",
    "ka ba",
    "",
]


def test_each_translation_has_its_items():
    model = tiny.model(seed=5, vocabulary_size=320)
    tokenizer = Tokenizer(made_up_text.byte_vocabulary())
    translator = Translator.from_model(model, tokenizer)
    terms = Terms([("ba", "do")], keep=KINDS)
    rows = translator.n_best(TEXTS, 2, terms=terms)
    aligned = translator.align(TEXTS, terms=terms)
    for text, row, best in zip(TEXTS, rows, aligned):
        for each in (*row, best):
            assert ("do" in each.text.split()) or "ba" not in text.split()
            for variants in find_items(text, KINDS, {"ǯak"}).values():
                pattern = "|".join(map(re.escape, variants))
                assert re.search(rf"(?<!\w)({pattern})(?!\w)", each.text)
    many = "".join(f"{chr(0x1F400 + i)} " for i in range(MAX_ITEMS + 5))
    (best,) = translator.translate([many], terms=Terms(keep=KINDS))
    for i in range(MAX_ITEMS):
        assert chr(0x1F400 + i) in best.text


@pytest.mark.slow
def test_what_the_vocabulary_cannot_spell_is_left_to_the_model(
    translator, model_path, exported
):
    texts = ["ba ka 😀 ǯ", "ka."]
    plain = [each.text for each in translator.translate(texts)]
    found = translator.translate(texts, terms=Terms(keep=KINDS))
    assert [each.text for each in found] == plain
    for model in model_path, exported:
        code, lines, err = commands.run(
            "export.translate", model, texts, "--keep=emoji,urls"
        )
        assert (code, lines) == (0, plain), err
        assert "1: '😀'" in err[-1]


def test_what_cannot_keep_items_says_so(model_path):
    for given, words in (
        *(("--keep=faces", "faces"), ("--keep=urls", "--keep")),
        ("--keep=placeholders --placeholder=(", "'('"),
        ("--keep=placeholders --placeholder=a*", "'a*'"),
        ("--placeholder=a", "--document"),
    ):
        code, _, err = commands.run(
            "export.translate", model_path, TEXTS, *given.split(), "--compiled"
        )
        assert code == 2 and words in err[-1]
    with pytest.raises(InputError, match="rare"):
        SignatureBackend(None).validate_terms(Terms(keep=["rare"]))
