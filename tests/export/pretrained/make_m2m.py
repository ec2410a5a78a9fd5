"""Makes tests/data/m2m: random models of Hugging Face's code and its answers.

`python make_m2m.py FOLDER` needs transformers, torch and sentencepiece, and
imports nothing of ours.
"""

import io
import json
import pathlib
import random
import sys

import sentencepiece
import torch
import transformers

# First letters of 40 scripts and more.
SCRIPTS = (
    "41 61 391 410 531 5D0 627 710 780 7C0 840 905 985 A05 A85 B05 B85 C05 "
    "C85 D05 D85 E01 E81 F40 1000 10D0 1100 1200 13A0 1401 1681 16A0 1780 "
    "1820 1900 1950 1D400 3041 30A1 3105 4E00 A000 A4D0 AC00"
)
LETTERS = [int(code, 16) for code in SCRIPTS.split()]
CODES = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"]
BEAMS = (1, 4)
NEW_TOKENS = 14


def make_texts(count, seed):
    generator = random.Random(seed)

    def word():
        first = generator.choice(LETTERS)
        return "".join(
            chr(first + generator.randrange(12))
            for _ in range(generator.randint(1, 5))
        )

    texts = []
    for index in range(count):
        words = [word() for _ in range(generator.randint(1, 6))]
        text = " ".join(words)
        if index % 3 == 0:
            text += generator.choice([".", "!", "？", " 12,5", "\u00a0…", "ﬁ"])
        if index % 7 == 0:
            text = text.replace(" ", "  ", 1) + chr(0x1F600)
        texts.append(text)
    return texts


def train(lines, size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        character_coverage=0.98,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        unk_id=0,
        bos_id=1,
        eos_id=2,
        minloglevel=2,
    )
    return model.getvalue()


def randomize(model, seed, end_bias):
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        value = torch.randn(weight.shape, generator=generator)
        if "norm.weight" in name:
            value = 1 + 0.3 * value
        elif value.ndim == 2 and "shared" not in name:
            # So that outputs do not repeat one token.
            is_output = "fc2" in name or "out_proj" in name
            value *= (12 if is_output else 3) * value.shape[1] ** -0.5
        else:
            value *= 0.4
        weight.data.copy_(value)
    # So that outputs end.
    end = model.model.shared.weight.data[2]
    end *= 2.0
    model.model.decoder.layer_norm.bias.data += end_bias * end / end.norm()


def make_model(size, layers, seed, end_bias):
    config = transformers.M2M100Config(
        vocab_size=size,
        d_model=16,
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        max_position_embeddings=64,
    )
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    model.generation_config.max_length = 200
    model.generation_config.num_beams = 4
    randomize(model, seed, end_bias)
    return model


def make_nllb_tokenizer(folder, spm):
    """With languages and <mask> after the pieces, as in published files."""
    folder.mkdir(parents=True)
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    tokenizer = transformers.NllbTokenizer.from_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    tokenizer.save_pretrained(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    added, vocab = content["added_tokens"][:4], content["model"]["vocab"]
    for token in [*CODES, "<mask>"]:
        added.append(
            added[0]
            | {"id": len(vocab), "content": token, "lstrip": token == "<mask>"}
        )
        vocab[token] = len(vocab)
    content["added_tokens"] = added
    (folder / "tokenizer.json").write_text(json.dumps(content))
    fields = json.loads((folder / "tokenizer_config.json").read_text())
    fields["extra_special_tokens"] = CODES
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))
    return transformers.NllbTokenizer.from_pretrained(
        folder, src_lang="eng_Latn", tgt_lang="fra_Latn"
    )


def make_m2m_tokenizer(folder, spm):
    folder.mkdir(parents=True)
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    # A dictionary in another order, without some pieces.
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor))]
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocab = {p: i for i, p in enumerate(special + pieces[::-1])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    return transformers.M2M100Tokenizer(
        str(folder / "vocab.json"),
        str(folder / "sentencepiece.bpe.model"),
        src_lang="en",
        tgt_lang="de",
        language_codes="wmt21",
    )


def answer(model, tokenizer, text, source, target):
    tokenizer.src_lang = source
    batch = tokenizer(text, return_tensors="pt")
    language = target if target in CODES else f"__{target}__"
    language = tokenizer.convert_tokens_to_ids(language)
    generator = random.Random(text)
    size = len(tokenizer) - 20
    given = [generator.randrange(4, size) for _ in range(4)] + [2]
    inputs = torch.tensor([[2, language, *given[:-1]]])
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=inputs).logits[0].double()
    log_probs = logits.log_softmax(-1)[range(1, 6), given].sum()
    hypotheses = {}
    for beams in BEAMS:
        output = model.generate(
            **batch,
            forced_bos_token_id=language,
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=NEW_TOKENS,
            max_length=None,
            # What our search never generates.
            bad_words_ids=[[1], [3]],
            return_dict_in_generate=True,
            output_scores=True,
        )
        scores = getattr(output, "sequences_scores", None)
        hypotheses[beams] = [
            {
                "ids": [i for i in ids.tolist() if i != 1],
                "text": tokenizer.decode(ids, skip_special_tokens=True),
                "score": None if scores is None else scores[row].item(),
            }
            for row, ids in enumerate(output.sequences)
        ]
    return {
        "text": text,
        "source": source,
        "target": target,
        "ids": batch["input_ids"][0].tolist(),
        "given": given,
        "logits": [round(each, 6) for each in logits[-1].tolist()],
        "log_prob": log_probs.item(),
        "hypotheses": hypotheses,
    }


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    lines = make_texts(1500, seed=1)
    spm = train(lines, 900)
    texts = make_texts(40, seed=2)
    for name, make_tokenizer, layers, codes, shard, end_bias in (
        (
            "nllb",
            make_nllb_tokenizer,
            (2, 1),
            ("eng_Latn", "fra_Latn"),
            "40KB",
            2.9,
        ),
        ("m2m", make_m2m_tokenizer, (1, 2), ("en", "de"), "1GB", 6.5),
    ):
        tokenizer = make_tokenizer(folder / f"{name}-files", spm)
        # As published: rows without a token.
        size = len(tokenizer) + 2 if name == "nllb" else len(tokenizer) + 8
        model = make_model(size, layers, len(name), end_bias)
        path = folder / name
        if name == "nllb":
            model = model.to(torch.bfloat16)
        model.save_pretrained(path, max_shard_size=shard)
        tokenizer.save_pretrained(path)
        model = transformers.M2M100ForConditionalGeneration.from_pretrained(
            path, dtype=torch.float32
        ).eval()
        answers = [
            answer(model, tokenizer, text, *codes[:: 1 if i % 4 else -1])
            for i, text in enumerate(texts)
        ]
        (path / "answers.json").write_text(json.dumps(answers))
    (folder / "sentencepiece.bpe.model").write_bytes(spm)


if __name__ == "__main__":
    main()
