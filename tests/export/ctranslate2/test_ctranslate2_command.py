"""The command as users run it, and the translator it compares with."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
import sentencepiece
from keras.ops import one_hot

import keras_transformer as kt
from export.ctranslate2.ctranslate2_translator import CTranslate2Translator
from export.ctranslate2.ctranslate2_weights import save_ctranslate2
from export.model_directory import ModelDirectory
from export.pretrained.marian_reader import read_marian
from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from keras_transformer.config import END_ID
from tests import made_up_text, processes
from tests.export import tiny
from tests.export.ctranslate2.test_ctranslate2_weights import (
    log_probability,
    to_ids,
)
from tests.export.pretrained import marian_directory

ctranslate2 = pytest.importorskip("ctranslate2")
TEXTS = made_up_text.sentences()[:20]
FEW = TEXTS[:5]
BEAM, ALPHA, EXTRA = 4, 0.6, tiny.CONFIG["max_extra_tokens"]


def run(*flags):
    return processes.run({"module": "export.ctranslate2"}, flags)


def translate_pieces(folder, texts):
    """Translates with CTranslate2 and sentencepiece alone, to pieces."""
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "vocabulary.model")
    )
    sources = processor.encode(texts, out_type=str)
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    hypotheses = [
        translator.translate_batch(
            [source],
            beam_size=BEAM,
            length_penalty=ALPHA,
            max_decoding_length=len(source) + EXTRA,
            disable_unk=True,
            return_end_token=True,
        )[0].hypotheses[0]
        for source in sources
    ]
    return hypotheses, [processor.decode(each) for each in hypotheses]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for each other are slow on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(name="written", scope="module")
def fixture_written(tmp_path_factory):
    """One run: the folder, the printed text, and our own translations."""
    folder = tmp_path_factory.mktemp("ctranslate2")
    tiny.write(folder / "model")
    # Makes the end likely enough to be chosen.
    model = tiny.model()
    end = np.asarray(model.output_embedding.embeddings)[END_ID]
    beta = model.decoder.final_norm.beta
    beta.assign(np.asarray(beta) + 2 * end / (end @ end))
    ModelDirectory(folder / "model").write_weights(model)
    translator = Translator.from_directory(folder / "model")
    ours = [each.text for each in translator.translate(TEXTS)]
    (folder / "in").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "right").write_text("".join(f"{text}\n" for text in ours))
    (folder / "blank").write_text("\n" * len(TEXTS))
    done = run(
        f"--model_dir={folder / 'model'}",
        f"--output_dir={folder / 'out'}",
        f"--compare={folder / 'in'}",
        f"--references={folder / 'right'}",
        f"--references={folder / 'blank'}",
    )
    assert done.code == 0, done.err
    return folder / "out", done.out, ours


def test_it_prints_the_agreement(written):
    folder, printed, ours = written
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "vocabulary.model",
    }
    _, theirs = translate_pieces(folder, TEXTS)
    identical = sum(one == other for one, other in zip(ours, theirs))
    assert 0 < identical < len(TEXTS)
    assert f"({identical} of {len(TEXTS)})" in printed
    bleu = sacrebleu.corpus_bleu(theirs, [ours]).score
    assert f"ours 100.00, CTranslate2 {bleu:.2f} ({bleu - 100:+.2f})" in printed
    mean, largest = re.search(
        r"mean (\S+), largest (\S+) where identical", printed
    ).groups()
    assert float(mean) <= float(largest) < 1e-4


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


def test_the_printed_program_runs(written):
    folder, printed, _ = written
    (expected,) = translate_pieces(folder, [TEXTS[1]])[1]
    assert run_printed_program(printed, TEXTS[1]) == expected


def test_the_printed_program_of_a_pretrained_model(tmp_path):
    """With two vocabularies, a tag and OPUS-MT's normalization."""
    folder = tmp_path / 'it\'s a [1] "folder"'
    directory = ModelDirectory(folder / "model")
    arrays = marian_directory.arrays_of(marian_directory.model(seed=7))
    pretrained = read_marian(marian_directory.write(tmp_path / "npz", arrays))
    # The two searches truncate differently.
    bias = pretrained.model.output_embedding.bias
    bias.assign(bias + 6.0 * one_hot(END_ID, bias.shape[0]))
    directory.write_config(
        pretrained.model.config.replace(max_extra_tokens=9, beam_size=3)
    )
    directory.write_run({"dataset": "made up"})
    directory.write_vocabulary(pretrained.vocabulary)
    directory.write_weights(pretrained.model)
    done = run(
        f"--model_dir={directory.path}", f"--output_dir={folder / 'out'}"
    )
    assert done.code == 0, done.err
    text = ">>fra<< rusa to \\ 'ze'! \uff01"
    (ours,) = Translator.from_directory(directory.path).translate([text])
    assert run_printed_program(done.out, text) == ours.text


def test_wrong_input_is_refused_and_nothing_written(model_path, tmp_path):
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
        done = run(*flags)
        assert done.code == 2
        (line,) = done.err.splitlines()
        assert word in line
    assert {path.name for path in tmp_path.iterdir()} == {"in", "right"}


def test_scores_have_the_length_penalty_of_the_model(tmp_path):
    tokenizer = Tokenizer(made_up_text.vocabulary())
    model = tiny.model(length_penalty="power")
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    peer = CTranslate2Translator(tmp_path / "folder", model.config, 512)
    translations = peer.translate([*FEW, " "])
    assert (translations[-1].text, translations[-1].score) == ("", 0.0)
    hypotheses, texts = translate_pieces(tmp_path / "folder", FEW)
    assert [each.text for each in translations[:-1]] == texts
    sources = tokenizer.encode(FEW)
    for source, pieces, each in zip(sources, hypotheses, translations):
        target = to_ids(tokenizer, pieces)
        expected = log_probability(model, source, target)
        expected /= len(target) ** ALPHA
        assert each.score == pytest.approx(expected, abs=1e-4)


def test_long_sources_are_truncated(tmp_path):
    model = tiny.model()
    tokenizer = Tokenizer(made_up_text.vocabulary())
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    peer = CTranslate2Translator(tmp_path / "folder", model.config, 9)
    long = "ba bi " * 30
    beginning = tokenizer.encode([long])[0][:8]
    text = tokenizer.decode([beginning])[0]
    assert peer.translate([long]) == peer.translate([text])
    assert peer.translate([long]) != peer.translate(["ba bi"])


def test_a_folder_of_target_pieces(tmp_path):
    """It generates and scores among these alone."""
    model = tiny.model(output_bias=True)
    tokenizer = Tokenizer(made_up_text.vocabulary())
    allowed = kt.OutputVocabulary.fixed(range(50, 120), 200).ids
    save_ctranslate2(
        model, tokenizer.proto, tmp_path / "folder", target_pieces=allowed
    )
    pieces = [tokenizer.id_to_token(number) for number in allowed]
    listed = tmp_path / "folder" / "target_vocabulary.json"
    assert json.loads(listed.read_text()) == pieces
    peer = CTranslate2Translator(tmp_path / "folder", model.config, 512)
    hypotheses, _ = translate_pieces(tmp_path / "folder", FEW)
    translations = peer.translate(FEW)
    sources = tokenizer.encode(FEW)
    for source, hypothesis, each in zip(sources, hypotheses, translations):
        target = to_ids(tokenizer, hypothesis)
        assert {*target} <= {*allowed}
        expected = log_probability(model, source, target, allowed)
        expected /= ((5 + len(target)) / 6) ** ALPHA
        assert each.score == pytest.approx(expected, abs=1e-4)
