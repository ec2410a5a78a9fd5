"""A model of two pairs of languages, as a user trains and asks it."""

import pytest
import sacrebleu

from export.loading import load_translator
from export.model_directory import ModelDirectory
from tests import processes
from tests.export import commands as export_commands
from tests.trainers import cipher, commands, event_files

OTHER = "yy"
# What sources of each corpus begin with.
TAGS = {"toy": "", "other": "<bt> "}
FILE = """
temperature = 2
[[corpora]]
dataset = "text:toy"
source_language = "en"
target_language = "xx"
[[corpora]]
dataset = "text:other"
source_language = "en"
target_language = "yy"
tag = "<bt>"
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory, worker):
    """The folder, the output of the training, and its ModelDirectory."""
    folder = tmp_path_factory.mktemp("mixture")
    cipher.write(folder)
    cipher.write(folder, name="other")
    # The reverse of the first language.
    for path in folder.glob(f"other.*.{cipher.TARGET}"):
        lines = [line[::-1] for line in path.read_text().splitlines()]
        path.with_suffix(f".{OTHER}").write_text("\n".join(lines) + "\n")
    return folder, *_train(worker, folder, FILE, "m", "--dev_bleu_sentences=4")


def _train(worker, folder, content, name, *flags):
    """Trains on a mixture; returns the output, and the ModelDirectory."""
    (folder / f"{name}.toml").write_text(content)
    minute = [each for each in commands.MINUTE if "_language=" not in each]
    arguments = (
        *minute,
        f"--dataset=mixture:{name}.toml",
        *(f"--model_dir={name}", "--train_steps=4", "--dev_steps=2", *flags),
    )
    done = worker.wmt(*arguments, folder=folder)
    assert done.code == 0, done.err
    return done.out, ModelDirectory(folder / name)


def test_each_direction_has_its_scores(model):
    folder, out, directory = model
    records = directory.read_scores()
    assert [each["target_language"] for each in records] == ["xx", OTHER]
    translator = load_translator(directory.path)
    for name, record in zip(TAGS, records):
        _assert_score(folder, translator, record, name)
        language = record["target_language"]
        sources = (folder / f"{name}.test.en").read_text().splitlines()
        tagged = [f">>{language}<< {source}" for source in sources]
        bound = translator.for_languages(target=language)
        assert translator.translate(tagged) == bound.translate(sources)
    assert "Test, mean BLEU" in out
    dev = event_files.scalars(directory.logs_path / "dev")
    for (_, mean), (_, one), (_, other) in zip(
        dev["bleu"], dev["bleu/en-xx"], dev["bleu/en-yy"], strict=True
    ):
        assert mean == pytest.approx((one + other) / 2)


@pytest.mark.slow
def test_one_target_language_needs_no_tag(model, worker, evaluator):
    folder, _, _ = model
    swapped = (
        FILE.replace('"en"', '"source"')
        .replace("target_language", "other_language")
        .replace("source_language", "target_language")
        .replace("other_language", "source_language")
        .replace('"source"', '"en"')
    )
    out, directory = _train(worker, folder, swapped, "n")
    assert "Test, xx to en" in out and "Test, yy to en" in out
    translator = load_translator(directory.path)
    assert translator.languages.codes == ()
    for name, record in zip(TAGS, directory.read_scores()):
        _assert_score(folder, translator, record, name)
    done = evaluator.run("--model_dir=n", folder=folder)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def model_of_both_tags(model, worker):
    return _train(worker, model[0], f'tags = "both"\n{FILE}', "b")


def test_tags_of_both_languages(model, model_of_both_tags):
    out, directory = model_of_both_tags
    assert "Test, en to xx" in out
    translator = load_translator(directory.path)
    _assert_score(model[0], translator, directory.read_scores()[1], "other")


@pytest.mark.slow
def test_fine_tuning_has_both_tags(model, model_of_both_tags):
    folder, _, _ = model
    done = commands.wmt(
        *commands.MINUTE,
        *(
            "--dataset=text:toy",
            "--init_from=b",
            "--model_dir=tuned",
            "--train_steps=4",
        ),
        *("--dev_steps=2", "--dev_bleu_sentences=4", "--attention_steps=2"),
        "--sample_minutes=0.001",
        folder=folder,
    )
    assert done.code == 0, done.err
    assert ">>en<<>>xx<<" in done.out
    (record,) = ModelDirectory(folder / "tuned").read_scores()
    _assert_score(folder, load_translator(folder / "tuned"), record, "toy")


def _assert_score(folder, translator, record, name):
    """Compares a record of scores.json with sacreBLEU's of translations."""
    languages = record["source_language"], record["target_language"]
    sources, references = (
        (folder / f"{name}.test.{each}").read_text().splitlines()
        for each in languages
    )
    translator = translator.for_languages(*languages)
    sources = [f"{TAGS[name]}{source}" for source in sources]
    texts = [each.text for each in translator.translate(sources)]
    bleu = sacrebleu.BLEU().corpus_score(texts, [references])
    assert record["score"] == pytest.approx(bleu.score, abs=1e-4)


def test_it_is_evaluated_and_asked_for_a_language(model, evaluator):
    folder, _, directory = model
    before = directory.read_scores()
    arguments = "--model_dir=m", "--output=out", "--batch_tokens=64"
    done = evaluator.run(*arguments, folder=folder)
    assert done.code == 0, done.err
    assert len((folder / "out").read_text().splitlines()) == 16
    after = directory.read_scores()
    assert [each["score"] for each in after] == [
        each["score"] for each in before
    ]
    tokenizer = directory.load_tokenizer()
    for name, record in zip(TAGS, after):
        path = folder / f"{name}.test.{record['target_language']}"
        ids = tokenizer.target.encode(path.read_text().splitlines())
        assert record["perplexity"]["tokens"] == sum(map(len, ids))
    (folder / "in").write_text("ba do\n")
    for flags, code, name in (
        (["--target_language=yy"], 0, ""),
        ([], 2, "target_language"),
        (["--target_language=zz"], 2, "zz"),
    ):
        files = f"--input={folder / 'in'}", f"--output={folder / 't'}"
        arguments = ("export.translate", folder / "m", [], *files, *flags)
        found, _, err = export_commands.run(*arguments)
        assert found == code, err
        assert name in "".join(err)
        assert bool((folder / "t").read_text().strip()) == (code == 0)
        (folder / "t").write_text("")


def test_it_is_no_teacher(model):
    folder, _, _ = model
    done = processes.run(
        {"module": "trainers.distill"},
        ["--teacher=m", "--output_dir=student"],
        folder,
    )
    commands.assert_one_clear_line(done, "mixture")
    assert not (folder / "student").exists()
