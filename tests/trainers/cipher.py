"""A toy language pair: English-like syllables and their cipher."""

import pathlib
import random

SOURCE, TARGET = "en", "xx"
_SYLLABLES = ("ba", "do", "ki", "lu", "me", "no", "pa", "ri", "su", "ta")
_CIPHER = str.maketrans("abdeiklmnoprstu", "zyxwvqfghjcZYXW")
_SIZES = {"train": 200, "dev": 12, "test": 8}


def encipher(text: str) -> str:
    return text.translate(_CIPHER)


def sentences(count, seed=1) -> list[tuple[str, str]]:
    """Pairs of 2 to 5 words."""
    chance = random.Random(seed)
    sources = [
        " ".join(chance.choices(_SYLLABLES, k=chance.randint(2, 5)))
        for _ in range(count)
    ]
    return [(source, encipher(source)) for source in sources]


def write(folder, name="toy", splits=("train", "dev", "test")) -> str:
    """Writes the splits' files; returns what `--dataset` calls them."""
    for number, (split, size) in enumerate(_SIZES.items()):
        if split in splits:
            pairs = sentences(size, seed=number)
            write_split(folder, f"{name}.{split}", *zip(*pairs))
    return f"text:{pathlib.Path(folder, name)}"


def write_split(folder, name, sources, targets) -> None:
    """Writes one split, a sentence a line; sides may differ in length."""
    for language, texts in ((SOURCE, sources), (TARGET, targets)):
        path = pathlib.Path(folder, f"{name}.{language}")
        path.write_text("".join(f"{text}\n" for text in texts))
