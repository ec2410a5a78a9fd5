"""Random MarianMTModels and what Hugging Face's own code answers with them.

    python tests/export/pretrained/make_marian.py tests/data/marian

A process of its own, of a Python that has transformers and torch (see
requirements-bench.txt); nothing of ours is imported. It wrote
tests/data/marian.
"""

import io
import json
import pathlib
import random
import shutil
import sys
import tarfile

import sentencepiece
import torch
import transformers

torch.set_num_threads(1)

# A made-up language of source and target, with what a vocabulary may lack.
_SYLLABLES = ["ka", "lo", "mi", "ne", "ru", "sa", "to", "vi", "ze", "bo"]
_MARKS = [".", ",", "!", "?", "-", "'"]
_STRANGE = "éßжあ語😀ǅ½ﬁ\u200b\u00a0\u3000"
_LARGEST_EXTRA = 12


def _word(generator):
    return "".join(generator.choices(_SYLLABLES, k=generator.randint(1, 4)))


def _sentence(generator):
    words = [_word(generator) for _ in range(generator.randint(1, 9))]
    return " ".join(words) + generator.choice(_MARKS)


def _text(generator):
    """A sentence, often with something that no training text had."""
    text = list(_sentence(generator))
    for _ in range(generator.choice([0, 0, 1, 3])):
        text.insert(
            generator.randrange(len(text) + 1), generator.choice(_STRANGE)
        )
    tag = generator.choice(["", "", ">>fra<< ", ">>xyz<< "])
    return tag + "".join(text).strip()


def _spm(seed, size):
    generator = random.Random(seed)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_sentence(generator) for _ in range(400)),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        minloglevel=2,
    )
    return model.getvalue()


def _pieces(proto):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [
        processor.IdToPiece(number)
        for number in range(len(processor))
        if not processor.IsControl(number) and not processor.IsUnknown(number)
    ]


def _table(pieces, generator, extra, size=None):
    """A table that lacks some of the pieces and has others besides."""
    listed = sorted({*pieces, *extra})
    generator.shuffle(listed)
    listed = listed[len(listed) // 20 :]
    names = ["</s>", "<unk>", ">>fra<<", *listed][: size and size - 1]
    return {name: number for number, name in enumerate([*names, "<pad>"])}


def write(folder, seed, pieces, shared, tied, end_bias, scale, **sizes):
    """Writes a directory with a random model in it, and returns the model."""
    folder.mkdir(parents=True)
    generator = random.Random(seed)
    torch.manual_seed(seed)
    source, target = _spm(seed, pieces), _spm(seed + 1, pieces + 10)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    names = _pieces(source), _pieces(target)
    if shared:
        tables = [_table(names[0] + names[1], generator, "語ж")] * 2
    else:
        size = 4 + min(map(len, names)) * 9 // 10
        tables = [_table(each, generator, "語", size) for each in names]
        _write_json(folder / "target_vocab.json", tables[1])
    _write_json(folder / "vocab.json", tables[0])
    pad = tables[0]["<pad>"]
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(tables[0]),
            decoder_vocab_size=len(tables[1]),
            share_encoder_decoder_embeddings=shared,
            tie_word_embeddings=tied,
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=pad,
            eos_token_id=0,
            decoder_start_token_id=pad,
            forced_eos_token_id=0,
            init_std=scale,
            **sizes,
        )
    ).eval()
    _disturb(model, end_bias)
    model.generation_config = transformers.GenerationConfig(
        num_beams=4,
        length_penalty=1.0,
        max_length=512,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
        bad_words_ids=[[pad]],
    )
    model.save_pretrained(folder)
    _write_json(
        folder / "tokenizer_config.json",
        {
            "source_lang": "eng",
            "target_lang": "fra",
            "separate_vocabs": not shared,
        },
    )
    return model


def _disturb(model, end_bias):
    """Makes every weight matter: biases, norms, the row of padding."""
    width = model.config.d_model
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                continue
            if "embed_tokens" in name or "shared" in name or "lm_head" in name:
                weight.copy_(torch.randn_like(weight) * width**-0.5)
            elif weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.2)
        bias = model.final_logits_bias
        bias.copy_(torch.randn_like(bias) * 0.5)
        bias[0, 0] += end_bias


def answer(folder, count, beams):
    """Returns what transformers answers for texts: a list of dict."""
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    generator = random.Random(1)
    answers = []
    for _ in range(count):
        text = _text(generator)
        found = {"text": text, "hypotheses": {}}
        inputs = tokenizer([text], return_tensors="pt")
        found["ids"] = inputs["input_ids"][0].tolist()
        for size in beams:
            found["hypotheses"][size] = _search(model, tokenizer, inputs, size)
        best = found["hypotheses"][beams[-1]][0]["ids"]
        found |= _given(model, inputs, best)
        answers.append(found)
    return answers


@torch.inference_mode()
def _search(model, tokenizer, inputs, size):
    output = model.generate(
        **inputs,
        num_beams=size,
        num_return_sequences=size,
        max_new_tokens=inputs["input_ids"].shape[1] + _LARGEST_EXTRA,
        max_length=None,
        # Ours never says it.
        suppress_tokens=[tokenizer.unk_token_id],
        # The end has its probability at the longest length as well.
        forced_eos_token_id=None,
        early_stopping=False,
        length_penalty=1.0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    scores = getattr(output, "sequences_scores", None)
    rows = [
        [number for number in row if number != model.config.pad_token_id]
        for row in output.sequences[:, 1:].tolist()
    ]
    texts = tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
    return [
        {
            "ids": row,
            "text": text,
            "score": None if scores is None else scores[place].item(),
        }
        for place, (row, text) in enumerate(zip(rows, texts))
    ]


@torch.inference_mode()
def _given(model, inputs, target):
    start = model.config.decoder_start_token_id
    logits = model(
        **inputs, decoder_input_ids=torch.tensor([[start, *target[:-1]]])
    ).logits[0]
    log_probs = torch.log_softmax(logits.double(), -1)
    picked = log_probs[torch.arange(len(target)), torch.tensor(target)]
    return {
        "target": target,
        "log_prob": picked.sum().item(),
        # Those of the last step.
        "logits": logits[-1].tolist(),
    }


def _write_json(path, content):
    path.write_text(
        json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8"
    )


_SIZES = {
    "d_model": 16,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
}
# Chosen so that translations end, at many lengths.
_MODELS = {
    "shared": {
        "seed": 2,
        "shared": True,
        "tied": True,
        "end_bias": 3.1,
        "scale": 0.9,
        "activation_function": "swish",
        "encoder_layers": 2,
        "decoder_layers": 1,
    },
    "separate": {
        "seed": 0,
        "shared": False,
        "tied": True,
        "end_bias": 1.0,
        "scale": 0.6,
        "activation_function": "relu",
        "encoder_layers": 1,
        "decoder_layers": 2,
    },
    "untied": {
        "seed": 0,
        "shared": False,
        "tied": False,
        "end_bias": 2.5,
        "scale": 0.3,
        "activation_function": "gelu",
        "encoder_layers": 1,
        "decoder_layers": 1,
    },
}


def main(output):
    """Writes the archive of small models."""
    output = pathlib.Path(output)
    output.mkdir()
    with tarfile.open(output / "models.tar.xz", "w:xz") as archive:
        for name, settings in _MODELS.items():
            folder = output / name
            model = write(folder, pieces=60, **_SIZES, **settings)
            answers = answer(folder, 100, [1, 4, 6])
            _write_json(folder / "answers.json", answers)
            if name == "shared":
                torch.save(model.state_dict(), folder / "pytorch_model.bin")
            archive.add(folder, name)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
