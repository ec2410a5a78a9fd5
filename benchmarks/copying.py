"""Share of inserted emoji, letters, numbers and URLs in translations.

python benchmarks/copying.py MODEL_DIR: in 1,000 sentences of the test split of
its data, one item each, then one of each kind, with and without --keep.
"""

import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.harness import report
from export.loading import load_translator
from export.terms.kept_items import KINDS
from export.terms.terms import Terms
from trainers.data.prepared_corpus import PreparedCorpus
from trainers.scores.bleu_tokenizers import choose_tokenizer
from trainers.scores.evaluation import bleu_difference, score_bleu

rng, path = random.Random(1), pathlib.Path(sys.argv[1])
test = PreparedCorpus(path / "data").test_set()
test = test.subset(rng.sample(test.scored_indices, 1000))
words = [*filter(str.isalpha, " ".join(test.sources).lower().split())]
translator = load_translator(path)
# Made in another way than those of trainers.data.copies.
MAKERS = {
    "emoji": lambda: chr(rng.randrange(0x1F400, 0x1F4FE)),
    "letter": lambda: chr(
        rng.choice((0x180, 0x3B1, 0x1401)) + rng.randrange(17)
    ),
    "number": lambda: str(rng.randrange(10 ** rng.randint(2, 7))),
    "url": lambda: "https://{}-{}.org/{}".format(*rng.choices(words, k=3)),
}
HEADER = (
    *("items", "unchanged without", "with --keep", "BLEU of the rest without"),
    *("with", "gain (95 %)", "to no items (95 %)"),
)


def remove_item(text, item):
    """Returns text without an item, and whether it was a word of it."""
    # Punctuation may be beside it.
    word = rf'(^|\s)([«"(]?){re.escape(item)}(?=[.,;:!?…»")]*(\s|$))'
    rest, count = re.subn(word, r"\1\2", text, count=1)
    return " ".join(rest.split()), count == 1


def translate(sources, items, terms):
    """Returns the translations without items, and the share of each item."""
    texts = [each.text for each in translator.translate(sources, terms=terms)]
    counts = [0] * len(items[0])
    for index, inserted in enumerate(items):
        for kind, item in enumerate(inserted):
            texts[index], is_found = remove_item(texts[index], item)
            counts[kind] += is_found
    shares = ", ".join(f"{count / len(items):.1%}" for count in counts)
    return texts, shares.replace("%", " %")


def difference(texts, others):
    found = bleu_difference(texts, others, test, tokenize)
    return "{difference:+.2f} ({low:+.2f} to {high:+.2f})".format(**found)


tokenize = choose_tokenizer("fr")
keep = Terms(keep=KINDS)
plain, _ = translate(test.sources, [()] * len(test.sources), None)
rows = []
for kinds in ((), *((kind,) for kind in MAKERS), (*MAKERS,)):
    items = [[MAKERS[kind]() for kind in kinds] for _ in test.sources]
    splits = [source.split(" ") for source in test.sources]
    for words_of_source, inserted in zip(splits, items):
        for item in inserted:
            place = rng.randint(0, len(words_of_source))
            words_of_source.insert(place, item)
    sources = [" ".join(split) for split in splits]
    (without, few), (with_keep, many) = (
        translate(sources, items, terms) for terms in (None, keep)
    )
    bleu = [
        f"{score_bleu(each, test, tokenize).score:.2f}"
        for each in (without, with_keep)
    ]
    gain = difference(with_keep, without), difference(with_keep, plain)
    rows.append((", ".join(kinds) or "none", few, many, *bleu, *gain))
print(report.markdown_table(HEADER, "l" + "r" * 6, rows))
print(report.provenance(__file__, sys.argv[1:], "tensorflow"))
