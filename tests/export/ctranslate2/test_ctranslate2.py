"""A CTranslate2 folder computes what the model does; the command."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
import sentencepiece

import keras_transformer as kt
from export.common.errors import InputError
from export.ctranslate2.ctranslate2_model import (
    QUANTIZATIONS,
    VOCABULARY_FILE,
    CTranslate2Backend,
    save_ctranslate2,
)
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.pretrained.m2m_reader import read_m2m
from export.pretrained.marian_npz_reader import read_marian_npz
from export.tokenizers.python_tokenizers import join_vocabularies
from export.tokenizers.tokenizer import Tokenizer
from export.translators.batches import pad_ids
from export.translators.translator import Translator
from keras_transformer.config import BEGIN_ID, END_ID
from tests import made_up_text
from tests.export import commands, many_languages, tiny
from tests.export.pretrained import marian_directory

ctranslate2 = pytest.importorskip("ctranslate2")
TEXTS = made_up_text.sentences()[:12]
FEW = TEXTS[:6]
BEAM, ALPHA, EXTRA = 4, 0.6, tiny.CONFIG["max_extra_tokens"]
COMMAND = "export.ctranslate2.__main__"
MODELS = {
    "pre-norm": {
        "share_embeddings": "target-softmax",
        "activation": "gelu",
        "output_bias": True,
        "sinusoid_rates": "marian",
    },
    "post-norm": {
        "norm": "post",
        "share_embeddings": "all",
        "layer_norm_epsilon": 0.1,
        "num_layers": 1,
        "num_decoder_layers": 2,
        "alignment_layer": -1,
        "alignment_heads": 1,
    },
    "learned positions": {
        "positions": "learned",
        "max_positions": 40,
        "activation": "silu",
        "attention_bias": False,
        "num_decoder_layers": 1,
    },
    "two vocabularies": {"source_vocabulary_size": 230},
}


@pytest.fixture(name="tokenizer", scope="module")
def fixture_tokenizer():
    return Tokenizer(made_up_text.vocabulary())


def load(path):
    return ctranslate2.Translator(str(path), device="cpu", intra_threads=1)


def to_pieces(tokenizer, ids):
    return [tokenizer.id_to_token(number) for number in ids]


def to_ids(tokenizer, pieces):
    table = {tokenizer.id_to_token(i): i for i in range(200)}
    return [table[piece] for piece in pieces]


def assert_scores(scores, model, sources, targets, allowed=None):
    """Compares log-probability / length^alpha, from logits in float64.

    The softmax is over the allowed ids; all by default.
    """
    given = [[BEGIN_ID, *target[:-1]] for target in targets]
    logits = model({"source": pad_ids(sources), "target": pad_ids(given)})
    logits = np.asarray(logits, "float64")
    among = logits if allowed is None else logits[:, :, allowed]
    logs = logits - np.logaddexp.reduce(among, axis=2, keepdims=True)
    for score, row, target in zip(scores, logs, targets, strict=True):
        length = len(target)
        expected = row[np.arange(length), target].sum() / length**ALPHA
        assert score == pytest.approx(expected, abs=1e-4)


def translate_pieces(folder, texts):
    """Translates with CTranslate2 and sentencepiece alone, to pieces."""
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "vocabulary.model")
    )
    hypotheses = [
        load(folder)
        .translate_batch(
            [source],
            beam_size=BEAM,
            length_penalty=ALPHA,
            max_decoding_length=len(source) + EXTRA,
            disable_unk=True,
            return_end_token=True,
        )[0]
        .hypotheses[0]
        for source in processor.encode(texts, out_type=str)
    ]
    return hypotheses, [processor.decode(each) for each in hypotheses]


@pytest.mark.parametrize("name", MODELS)
def test_scores_match_the_model(tmp_path, tokenizer, name):
    model = tiny.model(**{"num_layers": 2} | MODELS[name])
    source_tokenizer, vocabulary = tokenizer, tokenizer.proto
    if name == "two vocabularies":
        source_tokenizer = Tokenizer(made_up_text.vocabulary(230, seed=2))
        vocabulary = join_vocabularies(source_tokenizer.proto, tokenizer.proto)
    save_ctranslate2(model, vocabulary, tmp_path / "folder")
    sources = source_tokenizer.encode(FEW)
    translator = load(tmp_path / "folder")
    pieces = [to_pieces(source_tokenizer, ids[:-1]) for ids in sources]
    (greedy,) = translator.translate_batch(
        pieces[1:2],
        beam_size=1,
        max_decoding_length=12,
        return_attention=True,
        return_end_token=True,
    )
    target = np.array([to_ids(tokenizer, greedy.hypotheses[0])], "int32")
    aligned = kt.force_align(model, sources[1][None], target).numpy()
    # CTranslate2 omits the end of the source.
    np.testing.assert_allclose(greedy.attention, aligned[..., :-1], atol=1e-4)
    results = translator.translate_batch(
        pieces,
        beam_size=4,
        num_hypotheses=2,
        length_penalty=ALPHA,
        # By default the end is excluded at first, before the softmax.
        min_decoding_length=0,
        max_decoding_length=12,
        return_scores=True,
        return_end_token=True,
    )
    assert len({result.scores[0] for result in results}) == len(FEW)
    for number in range(2):
        targets = [
            to_ids(tokenizer, result.hypotheses[number]) for result in results
        ]
        scores = [result.scores[number] for result in results]
        assert_scores(scores, model, sources, targets)


def test_a_folder_of_target_pieces(tmp_path, tokenizer):
    """It generates and scores among these alone; ranks by "power"."""
    model = tiny.model(output_bias=True, length_penalty="power")
    allowed = kt.OutputVocabulary.fixed(range(50, 120), 200).ids
    folder = tmp_path / "folder"
    save_ctranslate2(model, tokenizer.proto, folder, target_pieces=allowed)
    listed = json.loads((folder / "target_vocabulary.json").read_text())
    assert listed == to_pieces(tokenizer, allowed)
    peer = Translator(CTranslate2Backend(folder, model.config, 512))
    translations = peer.translate([*FEW, " "])
    assert (translations[-1].text, translations[-1].score) == ("", 0.0)
    hypotheses, texts = translate_pieces(folder, FEW)
    assert [each.text for each in translations[:-1]] == texts
    targets = [to_ids(tokenizer, pieces) for pieces in hypotheses]
    assert {*np.concatenate(targets)} <= {*allowed}
    scores = [each.score for each in translations[:-1]]
    sources = tokenizer.encode(FEW)
    assert_scores(scores, model, sources, targets, allowed)


def test_long_sources_and_long_translations(tmp_path, tokenizer):
    """Sources are truncated; positions suffice for the longest output."""
    folder = tmp_path / "folder"
    model = tiny.model(norm="post", max_extra_tokens=1500)
    save_ctranslate2(model, tokenizer.proto, folder)
    config = model.config.replace(max_extra_tokens=5)
    peer = Translator(CTranslate2Backend(folder, config, 9))
    long = "ba bi " * 30
    (text,) = tokenizer.decode([tokenizer.encode([long])[0][:8]])
    one, other = peer.translate([long, text])
    assert one.source_truncated and not other.source_truncated
    assert (one.text, one.score) == (other.text, other.score)
    assert other != peer.translate(["ba bi"])[0]
    (source,) = tokenizer.encode(TEXTS[:1])
    length = len(source) + 1500
    (result,) = load(folder).translate_batch(
        [to_pieces(tokenizer, source[:-1])],
        beam_size=1,
        min_decoding_length=length,
        max_decoding_length=length,
    )
    assert len(result.hypotheses[0]) == length


def test_a_quantized_folder_is_smaller(tmp_path, tokenizer):
    model = tiny.model(d_ff=256)
    sizes = {}
    for kind in QUANTIZATIONS:
        save_ctranslate2(model, tokenizer.proto, tmp_path / kind, kind)
        sizes[kind] = (tmp_path / kind / "model.bin").stat().st_size
    largest = sizes.pop("float32")
    assert max(sizes.values()) < 0.75 * largest


def test_a_vocabulary_of_another_model_is_refused(tmp_path, tokenizer):
    for changes in {"vocabulary_size": 210}, {"source_vocabulary_size": 230}:
        with pytest.raises(InputError, match="pieces and the model 2"):
            save_ctranslate2(
                tiny.model(**changes), tokenizer.proto, tmp_path / "out"
            )
    assert list(tmp_path.iterdir()) == []


def run_printed_program(printed, text):
    program = printed[printed.index("  import ctranslate2") :]
    program = program.replace("'...'", repr(text)).replace("\n  ", "\n")
    done = subprocess.run(
        [sys.executable, "-c", program.strip()],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


def test_the_command_compares_and_prints_a_program(tmp_path, eager):
    tiny.write(tmp_path / "model", num_layers=2)
    # Makes the end likely enough to be chosen.
    model = tiny.model(num_layers=2)
    end = np.asarray(model.output_embedding.embeddings)[END_ID]
    beta = model.decoder.final_norm.beta
    beta.assign(np.asarray(beta) + 2 * end / (end @ end))
    ModelDirectory(tmp_path / "model").write_weights(model)
    translator = load_translator(tmp_path / "model")
    ours = [each.text for each in translator.translate(TEXTS)]
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "right").write_text("".join(f"{text}\n" for text in ours))
    (tmp_path / "blank").write_text("\n" * len(TEXTS))
    folder = tmp_path / "out"
    printed, _ = commands.output_and_error(
        *(COMMAND, f"--model_dir={tmp_path / 'model'}"),
        *(f"--output_dir={folder}", f"--compare={tmp_path / 'in'}"),
        f"--references={tmp_path / 'right'}",
        f"--references={tmp_path / 'blank'}",
    )
    _, theirs = translate_pieces(folder, TEXTS)
    identical = sum(one == other for one, other in zip(ours, theirs))
    assert 0 < identical < len(TEXTS)
    assert f"({identical} of {len(TEXTS)})" in printed
    bleu = sacrebleu.corpus_bleu(theirs, [ours]).score
    assert f"100.00, CTranslate2 {bleu:.2f}" in printed
    (largest,) = re.findall(r"at most (\S+) where identical", printed)
    assert float(largest) < 1e-4
    assert run_printed_program(printed, TEXTS[1]) == theirs[1]


def test_the_program_for_a_pretrained_model(tmp_path, eager):
    """With two vocabularies, a tag and OPUS-MT's normalization."""
    folder = tmp_path / 'it\'s a [1] "folder"'
    directory = ModelDirectory(folder / "model")
    arrays = marian_directory.arrays_of(marian_directory.model(seed=7))
    pretrained = read_marian_npz(
        marian_directory.write(tmp_path / "npz", arrays)
    )
    # The two searches truncate differently.
    bias = pretrained.model.output_embedding.bias
    bias.assign(bias + 6.0 * np.eye(bias.shape[0])[END_ID])
    config = pretrained.model.config.replace(max_extra_tokens=9, beam_size=3)
    directory.write(pretrained.model, pretrained.vocabulary, {}, config)
    printed, _ = commands.output_and_error(
        *(COMMAND, f"--model_dir={directory.path}"),
        f"--output_dir={folder / 'out'}",
    )
    text = ">>fra<< rusa to \\ 'ze'! \uff01"
    (ours,) = load_translator(directory.path).translate([text])
    assert run_printed_program(printed, text) == ours.text


def test_target_pieces_of_language_pairs(tmp_path):
    """The languages, with which hypotheses begin, are among them."""
    path = many_languages.write_model(tmp_path / "model", "pair")
    directory, folder = ModelDirectory(path), tmp_path / "folder"
    model = directory.load_model()
    save_ctranslate2(
        model, directory.read_vocabulary(), folder, target_pieces=range(60, 120)
    )
    peer = Translator(CTranslate2Backend(folder, model.config, 512))
    texts = [
        f">>eng_Latn<<>>{code}<<{text}"
        for text in FEW
        for code in many_languages.CODES
    ]
    found = {each.text for each in peer.translate(texts)}
    assert len(found) > len(FEW)


def test_a_model_of_language_pairs(m2m_folder, tmp_path, eager):
    """Greedily it translates as Hugging Face does; the printed program."""
    pretrained = read_m2m(m2m_folder / "nllb")
    directory = ModelDirectory(tmp_path / "model")
    config = pretrained.model.config.replace(beam_size=1, max_extra_tokens=14)
    run = {"source_language": "eng_Latn", "target_language": "fra_Latn"}
    directory.write(pretrained.model, pretrained.vocabulary, run, config)
    printed, _ = commands.output_and_error(
        *(COMMAND, f"--model_dir={directory.path}"),
        *(f"--output_dir={tmp_path / 'out'}", "--target_language=deu_Latn"),
    )
    content = (m2m_folder / "nllb" / "answers.json").read_text("utf-8")
    ended = {}
    for answer in json.loads(content):
        (hypothesis,) = answer["hypotheses"]["1"]
        # Not empty, which the search here excludes.
        if hypothesis["ids"][-1] == 2 and len(hypothesis["ids"]) > 3:
            tags = f">>{answer['source']}<<>>{answer['target']}<<"
            ended[tags + answer["text"]] = hypothesis["text"].strip()
    peer = Translator(CTranslate2Backend(tmp_path / "out", config, 256))
    translations = peer.translate([*ended])
    assert [each.text.strip() for each in translations] == [*ended.values()]
    translator = load_translator(directory.path)
    ours = translator.translate([*ended])
    np.testing.assert_allclose(
        [each.score for each in translations],
        [each.score for each in ours],
        rtol=1e-5,
    )
    (expected,) = translator.for_languages(target="deu_Latn").translate(["ba"])
    assert ">>eng_Latn<<>>deu_Latn<<..." in printed
    printed = printed.replace("'>>eng_Latn<<>>deu_Latn<<...'", "'...'")
    text = ">>eng_Latn<<>>deu_Latn<<ba"
    assert run_printed_program(printed, text) == expected.text.strip()


def test_wrong_input_is_refused_and_nothing_written(
    model_path, tmp_path, monkeypatch
):
    model, output = f"--model_dir={model_path}", f"--output_dir={tmp_path}/out"
    (tmp_path / "in").write_text("ba\nbi\n")
    (tmp_path / "right").write_text("ba\n")
    compare = f"--compare={tmp_path}/in"
    for word, flags in {
        "in exists": [model, f"--output_dir={tmp_path}/in"],
        "--compare": [model, output, "--references=x"],
        "none": [model, output, f"--compare={tmp_path}/none"],
        "right": [model, output, compare, f"--references={tmp_path}/right"],
        "model directory": [f"--model_dir={tmp_path}", output],
    }.items():
        assert word in commands.output_and_error(COMMAND, *flags)[1]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    message = commands.output_and_error(COMMAND, model, output)[1]
    assert "[ctranslate2]" in message
    assert {path.name for path in tmp_path.iterdir()} == {"in", "right"}


# Installs the package and translates with it. Splitting into sentences would
# download a model, and is no part of the package.
ARGOS_PROGRAM = """
import sys, types
for name in ("stanza", "spacy", "minisbd"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["minisbd"].SBDetect = None
sys.modules["minisbd"].models = types.SimpleNamespace(list_models=list)
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
source, target = sorted(translate.get_installed_languages(), key=str)
translation = source.get_translation(target)
translation.underlying.sentencizer.split_sentences = lambda text: [text]
print(source.code, target.code)
for text in sys.argv[2:]:
    print(translation.translate(text))
"""


@pytest.fixture(name="language_path")
def fixture_language_path(model_path, tmp_path):
    path = shutil.copytree(model_path, tmp_path / "model")
    run = {"source_language": "aa", "target_language": "bb"}
    ModelDirectory(path).write_run(run)
    return path


@pytest.mark.slow
def test_argos_translate_reads_its_package(language_path, tmp_path, eager):
    pytest.importorskip("argostranslate")
    commands.output_and_error(
        *(COMMAND, f"--model_dir={language_path}"),
        *(f"--output_dir={tmp_path / 'out'}", "--argos"),
    )
    folders = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME")}
    package = str(tmp_path / "out.argosmodel")
    done = subprocess.run(
        [sys.executable, "-c", ARGOS_PROGRAM, package, *FEW],
        env=os.environ | folders,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    processor = sentencepiece.SentencePieceProcessor(
        str(tmp_path / "out" / VOCABULARY_FILE)
    )
    # The settings of Argos Translate, which takes the fastest type.
    results = ctranslate2.Translator(
        str(tmp_path / "out"), compute_type="auto"
    ).translate_batch(
        [processor.encode(text, out_type=str) for text in FEW],
        beam_size=4,
        length_penalty=0.2,
        replace_unknowns=True,
    )
    expected = [processor.decode(each.hypotheses[0]) for each in results]
    assert done.stdout.splitlines() == ["aa bb", *expected]
    assert len({*expected}) > 1


def test_models_that_argos_translate_cannot_use(language_path, tmp_path):
    directory = ModelDirectory(language_path)
    flags = COMMAND, f"--model_dir={language_path}", "--argos"
    output = f"--output_dir={tmp_path}/out"
    (tmp_path / "out.argosmodel").touch()
    assert "exists" in commands.output_and_error(*flags, output)[1]
    (tmp_path / "out.argosmodel").unlink()
    for code in "../aa", None:
        directory.write_run({"source_language": "bb", "target_language": code})
        assert f"{code}:" in commands.output_and_error(*flags, output)[1]
    vocabulary = made_up_text.vocabulary()
    directory.write_vocabulary(join_vocabularies(vocabulary, vocabulary))
    assert "two" in commands.output_and_error(*flags, output)[1]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
