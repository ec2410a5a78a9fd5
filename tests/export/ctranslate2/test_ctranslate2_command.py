"""The command as users run it, and the translator it compares with."""

import importlib.util
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
import sentencepiece

import keras_transformer as kt
from export.ctranslate2.ctranslate2_translator import CTranslate2Translator
from export.ctranslate2.ctranslate2_weights import save_ctranslate2
from export.model_directory import ModelDirectory
from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from keras_transformer.config import END_ID
from tests import made_up_text, processes
from tests.export import tiny
from tests.export.ctranslate2.test_ctranslate2_weights import log_probability

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None,
    reason="ctranslate2 is not installed (requirements-serving.txt)",
)
TEXTS = made_up_text.sentences()[:20]
FEW = TEXTS[:5]
BEAM, ALPHA, EXTRA = 4, 0.6, tiny.CONFIG["max_output_extra"]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "export.ctranslate2", *arguments],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
    )


def raw_answers(folder, texts, limit=None):
    """What the folder gives to a user who knows nothing of us: pieces."""
    import ctranslate2

    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "vocabulary.model")
    )
    sources = pieces.encode(texts, out_type=str)
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    hypotheses = [
        translator.translate_batch(
            [source],
            beam_size=BEAM,
            length_penalty=ALPHA,
            max_decoding_length=limit or len(source) + EXTRA,
            disable_unk=True,
            return_end_token=True,
        )[0].hypotheses[0]
        for source in sources
    ]
    return hypotheses, [pieces.decode(each) for each in hypotheses]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for each other are slow on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def write_model(path):
    """Random weights, but the end is likely enough to be chosen."""
    model = tiny.model()
    end = np.asarray(model.output_embedding.embeddings)[END_ID]
    beta = model.decoder.final_norm.beta
    beta.assign(np.asarray(beta) + 2 * end / (end @ end))
    tiny.write(path)
    ModelDirectory(path).write_weights(model)


@pytest.fixture(name="written", scope="module")
def fixture_written(tmp_path_factory):
    """One run: the folder, what it printed, and our own translations."""
    folder = tmp_path_factory.mktemp("ctranslate2")
    write_model(folder / "model")
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
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout, ours


def test_it_prints_how_far_the_two_agree(written):
    folder, printed, ours = written
    _, theirs = raw_answers(folder, TEXTS)
    identical = sum(one == other for one, other in zip(ours, theirs))
    assert 0 < identical < len(TEXTS)
    assert f"({identical} of {len(TEXTS)})" in printed
    bleu = sacrebleu.corpus_bleu(theirs, [ours]).score
    assert f"ours 100.00, CTranslate2 {bleu:.2f} ({bleu - 100:+.2f})" in printed
    mean, largest = re.search(
        r"mean (\S+), largest (\S+) where identical", printed
    ).groups()
    assert float(mean) <= float(largest) < 1e-4
    assert "computes in float32" in printed
    assert "((5 + length) / 6)^alpha" in printed


def test_the_folder_is_whole(written):
    folder, _, _ = written
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "vocabulary.model",
    }
    assert not list(folder.parent.glob(".*"))


def answer_of_program(printed, text):
    """What the printed program translates a text to."""
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
    (expected,) = raw_answers(folder, [TEXTS[1]])[1]
    assert answer_of_program(printed, TEXTS[1]) == expected


def test_wrong_input_is_refused_and_nothing_written(model_path, tmp_path):
    model, output = f"--model_dir={model_path}", f"--output_dir={tmp_path}/out"
    (tmp_path / "in").write_text("ba\nbi\n")
    (tmp_path / "right").write_text("ba\n")
    compare = f"--compare={tmp_path}/in"
    for word, arguments in {
        "in exists": [model, f"--output_dir={tmp_path}/in"],
        "--compare": [model, output, "--references=x"],
        "none": [model, output, f"--compare={tmp_path}/none"],
        "right": [model, output, compare, f"--references={tmp_path}/right"],
        "model directory": [f"--model_dir={tmp_path}", output],
    }.items():
        module = {"module": "export.ctranslate2"}
        done = processes.run(module, arguments)
        assert done.code == 2
        (line,) = done.err.splitlines()
        assert line.startswith("Error: ") and word in line
    assert {path.name for path in tmp_path.iterdir()} == {"in", "right"}


def test_scores_are_under_the_models_own_penalty(tmp_path):
    tokenizer = Tokenizer(made_up_text.vocabulary())
    model = tiny.model(length_penalty="power")
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    peer = CTranslate2Translator(tmp_path / "folder", model.config, 512)
    found = peer.translate([*FEW, " "])
    assert (found[-1].text, found[-1].score) == ("", 0.0)
    numbers = {tokenizer.id_to_piece(i): i for i in range(200)}
    hypotheses, texts = raw_answers(tmp_path / "folder", FEW)
    assert [each.text for each in found[:-1]] == texts
    for text, pieces, each in zip(FEW, hypotheses, found):
        target = [numbers[piece] for piece in pieces]
        (source,) = tokenizer.encode([text])
        expected = log_probability(model, source, target)
        expected /= len(target) ** ALPHA
        assert each.score == pytest.approx(expected, abs=1e-4)


def test_sources_are_cut_where_asked(tmp_path):
    model = tiny.model()
    tokenizer = Tokenizer(made_up_text.vocabulary())
    save_ctranslate2(model, tokenizer.proto, tmp_path / "folder")
    peer = CTranslate2Translator(tmp_path / "folder", model.config, 9)
    long = "ba bi " * 30
    beginning = tokenizer.encode([long])[0][:8]
    text = tokenizer.decode([beginning])[0]
    assert peer.translate([long]) == peer.translate([text])
    assert peer.translate([long]) != peer.translate(["ba bi"])


def test_a_folder_of_target_pieces_says_no_others_and_scores_among_them(
    tmp_path,
):
    model = tiny.model(output_bias=True)
    tokenizer = Tokenizer(made_up_text.vocabulary())
    kept = kt.OutputVocabulary.fixed(range(50, 120), 200).ids
    save_ctranslate2(
        model, tokenizer.proto, tmp_path / "folder", target_pieces=kept
    )
    pieces = [tokenizer.id_to_piece(number) for number in kept]
    listed = tmp_path / "folder" / "target_vocabulary.json"
    assert json.loads(listed.read_text()) == pieces
    peer = CTranslate2Translator(tmp_path / "folder", model.config, 512)
    hypotheses, _ = raw_answers(tmp_path / "folder", FEW)
    for text, said, each in zip(FEW, hypotheses, peer.translate(FEW)):
        target = np.array([kept[pieces.index(piece)] for piece in said])
        source = np.array(tokenizer.encode([text]))
        given = np.append([2], target[:-1])[None]
        logits = np.float64(model({"source": source, "target": given})[0])
        of_kept = logits[:, kept] - np.logaddexp.reduce(
            logits[:, kept], axis=1, keepdims=True
        )
        places = np.searchsorted(kept, target)
        expected = of_kept[np.arange(len(target)), places].sum()
        expected /= ((5 + len(target)) / 6) ** ALPHA
        assert each.score == pytest.approx(expected, abs=1e-4)
