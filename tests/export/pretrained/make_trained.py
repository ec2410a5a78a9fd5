"""Trains a tiny model with real Marian and records its alignments.

python make.py FOLDER        # Python 3.11, with pymarian 1.12.42 installed
                             # by `pip install --no-deps`, sentencepiece, numpy
"""

import json, os, pathlib, random, subprocess, sys
import numpy as np
import sentencepiece
import _pymarian

LAYERS = ("last", "1", "2")
TRAIN = (
    "--type transformer --model {0}/model.npz --train-sets {0}/src {0}/trg "
    "--vocabs {0}/src.spm {0}/trg.spm --guided-alignment {0}/links "
    "--cpu-threads 1 --seed 7 --after-batches 500 --mini-batch 64 -w 500 "
    "--learn-rate 0.005 --lr-warmup 100 --cost-type ce-mean-words "
    "--dim-emb 8 --transformer-dim-ffn 16 --transformer-heads 2 "
    "--enc-depth 1 --dec-depth 3 --tied-embeddings --transformer-dropout 0 "
    "--save-freq 100000 --clip-norm 1 --quiet"
)
SEARCH = (
    "--models model.npz --vocabs src.spm trg.spm --cpu-threads 1 --quiet "
    "--beam-size 4 --normalize 1"
)


def sentence(generator, table):
    """Returns words, their translations and links; pairs of words swap."""
    words = generator.choices(sorted(table), k=generator.randint(2, 6))
    order = [i ^ 1 if i ^ 1 < len(words) else i for i in range(len(words))]
    links = {(source, target) for target, source in enumerate(order)}
    return words, [table[words[i]] for i in order], links


def word_numbers(processor, words):
    """Returns for each piece of a sentence the number of its word."""
    pieces = processor.encode(" ".join(words), out_type=str)
    return np.cumsum([piece.startswith("▁") for piece in pieces]) - 1


def main(folder):  # noqa
    folder.mkdir(parents=True)
    generator = random.Random(5)
    syllables = [c + v for c in "bdgklmnprst" for v in "aeiou"]
    names = sorted(
        {"".join(generator.choices(syllables, k=1 + i % 3)) for i in range(90)}
    )
    generator.shuffle(names)
    table = dict(zip(names[:30], names[30:60]))
    rows = [sentence(generator, table) for _ in range(5000)]
    processors = []
    for side, name in enumerate(("src", "trg")):
        text = "".join(" ".join(row[side]) + "\n" for row in rows)
        (folder / name).write_text(text)
        # Other rules of normalization would make the files large.
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / name),
            model_prefix=str(folder / name),
            vocab_size=44,
            normalization_rule_name="identity",
            minloglevel=2,
            **(
                {"pad_id": 3}
                if side
                else {"bos_id": -1, "eos_id": 0, "unk_id": 1}
            ),
        )
        os.rename(folder / f"{name}.model", folder / f"{name}.spm")
        processors.append(
            sentencepiece.SentencePieceProcessor(
                model_file=str(folder / f"{name}.spm")
            )
        )
    with open(folder / "links", "w") as file:
        for source, target, links in rows:
            one, other = (
                word_numbers(*pair)
                for pair in zip(processors, (source, target))
            )
            file.write(
                " ".join(
                    f"{i}-{j}"
                    for i, a in enumerate(one)
                    for j, b in enumerate(other)
                    if (a, b) in links
                )
                + "\n"
            )
    _pymarian.Trainer(TRAIN.format(folder)).train()
    arrays = dict(np.load(folder / "model.npz"))
    options = bytes(arrays.pop("special:model.yml")).rstrip(b"\0 \n").decode()
    os.chdir(folder)

    def save(layer):
        text = options.replace(
            "guided-alignment-layer: last", f"guided-alignment-layer: {layer}"
        )
        assert text != options or layer == "last"
        # Rounded to 8 bits, so that the file is small.
        rounded = {
            k: (v.view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)
            for k, v in arrays.items()
        }
        np.savez(
            "model.npz",
            **{
                "special:model.yml": np.frombuffer(
                    text.encode() + b"\0", np.int8
                )
            },
            **rounded,
        )

    texts = [" ".join(sentence(generator, table)[0]) for _ in range(40)]
    answers = [{"text": text, "links": {}} for text in texts]
    for layer in LAYERS[::-1]:
        save(layer)
        translator = _pymarian.Translator(
            f"{SEARCH} --n-best --word-scores --no-spm-decode --alignment hard"
        )
        for answer in answers:
            best = translator.translate([answer["text"]])[0].split("\n")[0]
            _, pieces, links, scores, *_ = best.split(" ||| ")
            answer["pieces"] = pieces.split()
            answer["links"][layer] = links
            answer["ends"] = len(scores.split()) == len(pieces.split()) + 2
            answer["log_probability"] = round(
                sum(map(float, scores.split()[1:])), 5
            )
    # Marian ends some outputs without </s> at its maximum length.
    answers = [each for each in answers if each.pop("ends")]
    pathlib.Path("answers.json").write_text(
        json.dumps(answers, ensure_ascii=False, indent=0)
    )
    code = f"import _pymarian; _pymarian.main({['decode', *SEARCH.split(), '--dump-config', 'full']!r})"
    dump = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    pathlib.Path("decoder.yml").write_text(dump.stdout)


main(pathlib.Path(sys.argv[1]))
