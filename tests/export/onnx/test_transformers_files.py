"""Optimum's and transformers.js' files translate as the model does."""

import json
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
import tokenizers

import keras_transformer as kt
from export.common.errors import InputError
from export.onnx.transformers_files import write_transformers_files
from export.tokenizers.python_tokenizers import (
    find_tags,
    join_vocabularies,
    load_python_tokenizers,
    split_vocabulary,
)
from export.translators.batches import pad_ids
from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.decoding.target_language import TargetLanguageModel
from tests import made_up_text
from tests.export import many_languages, odd_vocabularies, tiny

TEXTS = made_up_text.sentences()[:20]
MODELS = {
    "pre-norm": {"activation": "gelu", "sinusoid_rates": "marian"},
    "post-norm": {
        "norm": "post",
        "share_embeddings": "all",
        "output_bias": True,
        "num_layers": 2,
        "num_decoder_layers": 3,
    },
    "fairseq": {
        "share_embeddings": "target-softmax",
        "sinusoid_rates": "fairseq",
        "no_repeat_ngram_size": 1,
    },
    "learned positions": {
        "positions": "learned",
        "max_positions": 40,
        "activation": "silu",
        "attention_bias": False,
        "num_layers": 2,
        "repetition_penalty": 1.5,
    },
    "two vocabularies": {"source_vocabulary_size": 150},
}


def write(folder, model, vocabulary, quantization=None):
    languages = "eng_Latn", "fra_Latn"
    write_transformers_files(model, vocabulary, languages, folder, quantization)


def vocabulary_of(config):
    if config.source_vocabulary_size:
        source = odd_vocabularies.trained(
            made_up_text.sentences(), vocab_size=config.source_vocabulary_size
        )
        return join_vocabularies(source, made_up_text.vocabulary())
    return made_up_text.vocabulary()


def load(folder):
    """Returns the sessions of the encoder and the decoder."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return [
        onnxruntime.InferenceSession(path, options)
        for name in ("encoder", "decoder")
        for path in (folder / "onnx").glob(f"{name}_model*.onnx")
    ]


def empty_cache(decoder, batch, length=0):
    """Returns a cache that must be ignored."""
    return {
        each.name: np.full(
            (batch, each.shape[1], length, each.shape[3]), 9.0, "float32"
        )
        for each in decoder.get_inputs()
        if each.name.startswith("past_key_values")
    }


class Search:
    """A greedy search, as Optimum runs it, with generation_config.json."""

    def __init__(self, folder):
        self.encoder, self.decoder = load(folder)
        text = (folder / "generation_config.json").read_text("utf-8")
        self.options = json.loads(text)
        assert self.options["num_beams"] == 1

    def translate(self, source, limits, uses_cache=True, length=0):
        """Returns rows of target ids for padded rows of source ids."""
        mask = (source != PAD_ID).astype("int64")
        inputs = {"input_ids": source.astype("int64"), "attention_mask": mask}
        (memory,) = self.encoder.run(None, inputs)
        common = {
            "encoder_attention_mask": mask,
            "encoder_hidden_states": memory,
        }
        empty = empty_cache(self.decoder, len(source), length)
        cache, names = empty, [each.name for each in self.decoder.get_outputs()]
        tokens = np.full(
            (len(source), 1), self.options["decoder_start_token_id"]
        )
        is_first = True
        while not (tokens == END_ID).any(1).all():
            logits, *present = self.decoder.run(
                None,
                {
                    **common,
                    **cache,
                    "input_ids": tokens if is_first else tokens[:, -1:],
                    "use_cache_branch": np.array([not is_first]),
                },
            )
            if uses_cache:
                present = dict(zip(names[1:], present))
                cache = {
                    name: present[name.replace("past_key_values", "present")]
                    for name in empty
                }
                is_first = False
            chosen = self.choose(tokens, logits[:, -1], limits)
            tokens = np.concatenate([tokens, chosen[:, None]], 1)
        return [row[1 : list(row).index(END_ID) + 1].tolist() for row in tokens]

    def choose(self, tokens, logits, limits):
        """Returns the next tokens, by the rules of `transformers`."""
        options, length = self.options, tokens.shape[1]
        if length == 1 and "forced_bos_token_id" in options:
            return np.full(len(tokens), options["forced_bos_token_id"])
        penalty = options["repetition_penalty"]
        for row, given in zip(logits, tokens):
            for each in {*given}:
                row[each] *= penalty if row[each] < 0 else 1 / penalty
            if options["no_repeat_ngram_size"] == 1:
                row[given] = -np.inf
        if length < options["min_length"]:
            logits[:, options["eos_token_id"]] = -np.inf
        logits[:, options["suppress_tokens"]] = -np.inf
        ends = length >= np.asarray(limits)
        return np.where(ends, options["forced_eos_token_id"], logits.argmax(1))


def translate(model, source):
    """Returns the rows of our greedy search, and their limits."""
    assert model.config.beam_size == 1
    tokens = np.asarray(kt.translate_ids(model, source).tokens)[:, 0].tolist()
    lengths = (source != PAD_ID).sum(1) - 1
    return (
        [row[: row.index(END_ID) + 1] for row in tokens],
        lengths + model.config.max_extra_tokens,
    )


def random_source(config, seed=1):
    generator = np.random.default_rng(seed)
    return pad_ids(
        [
            [*generator.integers(4, config.encoder_vocabulary_size, n), END_ID]
            for n in (7, 1, 4, 12, 9, 2)
        ]
    )


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_search_matches(tmp_path, changes):
    model = tiny.model(beam_size=1, **changes)
    write(tmp_path, model, vocabulary_of(model.config))
    source = random_source(model.config)
    expected, limits = translate(model, source)
    assert len({len(row) for row in expected}) > 2
    search = Search(tmp_path)
    assert search.translate(source, limits) == expected
    # An older Optimum gives a first cache of one position.
    assert search.translate(source, limits, length=1) == expected
    assert search.translate(source, limits, uses_cache=False) == expected


def test_the_language_of_a_pair_begins_the_translation(tmp_path):
    vocabulary = many_languages.vocabulary("pair")
    tags = find_tags(split_vocabulary(vocabulary)[1])
    model = tiny.model(beam_size=1)
    write(tmp_path, model, vocabulary)
    source = random_source(model.config)
    language = np.full((len(source), 1), tags["fra_Latn"], "int32")
    expected, limits = translate(
        TargetLanguageModel(model), np.concatenate([language, source], 1)
    )
    # Without the language, but after it.
    search = Search(tmp_path)
    translated = search.translate(source, limits + 1)
    assert [row[0] for row in translated] == language[:, 0].tolist()
    assert [row[1:] for row in translated] == expected


@pytest.mark.parametrize(("kind", "length"), [("single", 2), ("pair", 3)])
def test_translations_are_not_empty(tmp_path, kind, length):
    model = tiny.model(beam_size=1, output_bias=True)
    bias = np.zeros(model.config.vocabulary_size)
    bias[END_ID] = 100.0
    model.output_embedding.bias.assign(bias)
    write(tmp_path, model, many_languages.vocabulary(kind))
    source = random_source(model.config)
    translated = Search(tmp_path).translate(source, [9] * len(source))
    # A token and the end, after the language if there are tags of both.
    assert {*map(len, translated)} == {length}


def test_finished_sentences_generate_ends(tmp_path):
    model = tiny.model(beam_size=1)
    write(tmp_path, model, made_up_text.vocabulary())
    source = random_source(model.config).astype("int64")
    encoder, decoder = load(tmp_path)
    mask = np.ones_like(source)
    (memory,) = encoder.run(None, {"input_ids": source, "attention_mask": mask})
    logits, *_ = decoder.run(
        None,
        {
            "encoder_attention_mask": mask,
            "encoder_hidden_states": memory,
            "input_ids": np.full((len(source), 1), END_ID),
            "use_cache_branch": np.array([False]),
            **empty_cache(decoder, len(source)),
        },
    )
    assert logits.argmax(-1).tolist() == [[END_ID]] * len(source)


def test_int8_is_near_and_smaller(tmp_path):
    model = tiny.model(d_model=64, num_heads=8)
    source = random_source(model.config).astype("int64")
    sizes, states = [], []
    for quantization in None, "int8":
        folder = tmp_path / str(quantization)
        folder.mkdir()
        write(folder, model, made_up_text.vocabulary(), quantization)
        files = [*(folder / "onnx").iterdir()]
        assert len(files) == 2
        sizes.append(sum(file.stat().st_size for file in files))
        encoder, _ = load(folder)
        mask = (source != PAD_ID).astype("int64")
        inputs = {"input_ids": source, "attention_mask": mask}
        states.append(encoder.run(None, inputs)[0][mask == 1])
    assert sizes[1] < 0.5 * sizes[0]
    exact, near = states
    correlations = [np.corrcoef(*pair)[0, 1] for pair in zip(exact, near)]
    assert 0.95 < min(correlations) < 1


def test_separate_vocabularies_have_two_tokenizers(tmp_path):
    config = tiny.config(**MODELS["two vocabularies"])
    vocabulary = vocabulary_of(config)
    write(tmp_path, tiny.model(**MODELS["two vocabularies"]), vocabulary)
    ours = load_python_tokenizers(vocabulary)
    for folder, each in (
        (tmp_path, ours.source),
        (
            tmp_path / "target",
            ours.target,
        ),
    ):
        made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        for text in TEXTS:
            assert made.encode(text).ids == each.ids(text)
            assert made.decode(each.ids(text)) == text


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_window": 4},
        {"retry_ngram_size": 3},
        {"d_k": 4},
    ],
)
def test_other_models_are_refused(tmp_path, changes):
    with pytest.raises(InputError):
        write(tmp_path, tiny.model(**changes), made_up_text.vocabulary())
    assert not [*tmp_path.iterdir()]


SCRIPT = """
import { env, pipeline } from "@huggingface/transformers";
import fs from "node:fs";
env.allowRemoteModels = false;
env.localModelPath = process.argv[2];
const texts = JSON.parse(fs.readFileSync(0, "utf8"));
const translate = await pipeline("translation", process.argv[3]);
const ids = texts.map(text => Array.from(translate.tokenizer.encode(text)));
const singles = [];
for (const [i, text] of texts.entries()) {
  const options = { max_new_tokens: ids[i].length + 4 };
  singles.push(...await translate(text, options));
}
const options = { max_new_tokens: 9 };
const nine = [];
for (const text of texts) nine.push(...await translate(text, options));
const batch = await translate(texts, options);
console.log(JSON.stringify({ ids, singles, nine, batch }));
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_transformers_js_translates_as_we_do(tmp_path):
    script = tmp_path / "translate.mjs"
    script.write_text(SCRIPT)
    # Scripts of its packages would download a runtime for GPUs.
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--prefix"]
    package = "@huggingface/transformers@4"
    subprocess.run([*command, str(tmp_path), package], check=True)
    model = tiny.model(seed=5, beam_size=1)
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    write(folder, model, made_up_text.vocabulary())
    done = subprocess.run(
        ["node", script.name, "models/", "tiny"],
        cwd=tmp_path,
        input=json.dumps(TEXTS),
        check=True,
        capture_output=True,
        text=True,
    )
    made = json.loads(done.stdout)
    tokenizer = load_python_tokenizers(made_up_text.vocabulary()).source
    ids = [tokenizer.ids(text) for text in TEXTS]
    assert made["ids"] == ids
    rows, _ = translate(model, pad_ids(ids))
    assert len({*map(len, rows)}) > 3
    singles, nine, batch = (
        [each["translation_text"] for each in made[name]]
        for name in ("singles", "nine", "batch")
    )
    assert singles == [*map(tokenizer.text, rows)]
    assert nine == batch != singles
