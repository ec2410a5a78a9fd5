"""Translations that a person should look at."""

import pytest

from export.translators.suspicion import find_suspicion

RUSSIAN = "Старик ходит из города в город и продаёт товары."
LONG = "The old man walks from town to town and sells his goods everywhere."
ROW = "Le vieil homme va de ville en ville et vend partout ses marchandises."


@pytest.mark.parametrize(
    "text, translation, language, reason",
    [
        (LONG, ROW, "fr", ""),
        (LONG, "Non.", "fr", "short"),
        (LONG, "老人走遍各城镇,到处卖他的货物。", "zh", ""),
        (LONG, "老人。", "zh", "short"),
        ("노인은 마을마다 다니며 물건을 판다.", LONG, "en", ""),
        ("No.", ROW, "fr", "long"),
        ("No.", "Certainement pas.", "fr", ""),
        (LONG, "Il va de la ville de la ville de la ville.", "fr", "repeating"),
        (
            LONG,
            "Le vieil homme ananananananan.",
            "",
            "repeating",
        ),
        (LONG, "老人走遍老人走遍老人走遍老人走遍城镇", "zh_Hans", "repeating"),
        # As often as in the text.
        (
            "I say no, no, no, no, no, no.",
            "Je dis non, non, non, non.",
            "fr",
            "",
        ),
        (
            "The big dog, the big dog!",
            "Le gros chien, le gros chien !",
            "fr",
            "",
        ),
        (LONG, LONG, "fr", "copied"),
        (LONG, LONG.upper(), "fr", "copied"),
        # Names and numbers stay.
        ("Tom Sawyer, 12 Main St.", "Tom Sawyer, 12 rue Main.", "fr", ""),
        ("1 2 3 4 5 6 7", "1 2 3 4 5 6 7", "fr", ""),
        (
            LONG,
            "Старик ходит из города в город и продаёт товары.",
            "fr",
            "script",
        ),
        (LONG, RUSSIAN, "ru", ""),
        (
            LONG,
            "Старик ходит из города в город и продаёт.",
            "fra_Latn",
            "script",
        ),
        # A language whose script is unknown.
        (LONG, RUSSIAN, "zzz", ""),
        ("Москва is big.", "Москва est.", "fr", ""),
        ("これは本です。", "This is a book.", "en", ""),
        (LONG, "その老人は町から町へと歩き、物を売る。", "jpn_Jpan", ""),
        ("", "", "fr", ""),
    ],
)
def test_reasons(text, translation, language, reason):
    assert find_suspicion(text, translation, language) == reason
