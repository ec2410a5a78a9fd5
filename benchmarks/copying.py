"""Share of inserted emoji, letters, numbers and URLs in translations.

python benchmarks/copying.py MODEL_DIR: in 1,000 sentences of the test split of
its data, one item each, then one of each kind; BLEU is without the items.
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import sacrebleu

from export.translators.model_translator import translator_class
from trainers.data.prepared_corpus import PreparedCorpus

rng, path = random.Random(1), pathlib.Path(sys.argv[1])
test = PreparedCorpus(path / "data").test_set()
test = test.subset(rng.sample(test.scored_indices, 1000))
words = [*filter(str.isalpha, " ".join(test.sources).lower().split())]
translator = translator_class().from_directory(path)
# Made in another way than those of trainers.data.copies.
MAKERS = {
    "emoji": lambda: chr(rng.randrange(0x1F400, 0x1F4FE)),
    "letter": lambda: chr(
        rng.choice((0x180, 0x3B1, 0x1401)) + rng.randrange(17)
    ),
    "number": lambda: str(rng.randrange(10 ** rng.randint(2, 7))),
    "url": lambda: "https://{}-{}.org/{}".format(*rng.choices(words, k=3)),
}
for kinds in ((), *((kind,) for kind in MAKERS), (*MAKERS,)):
    items = [[MAKERS[kind]() for kind in kinds] for _ in test.sources]
    splits = [source.split(" ") for source in test.sources]
    for words_of_source, inserted in zip(splits, items):
        for item in inserted:
            place = rng.randint(0, len(words_of_source))
            words_of_source.insert(place, item)
    rest, counts = [], dict.fromkeys(kinds, 0)
    found = translator.translate([" ".join(split) for split in splits])
    for text, inserted in zip([f" {each.text} " for each in found], items):
        for kind, item in zip(kinds, inserted):
            counts[kind] += f" {item} " in text
            text = text.replace(f" {item} ", " ")
        rest.append(text.strip())
    bleu = sacrebleu.corpus_bleu(rest, test.reference_streams()).score
    print({kind: count / 1000 for kind, count in counts.items()}, bleu)
