"""Scores of training pairs by two models, and the pairs that they select."""

import json

import numpy as np
import pytest

from export.common.errors import InputError
from export.loading import load_translator
from export.model_directory import ModelDirectory
from tests.export import tiny
from tests.trainers import cipher, commands, ray_workers
from trainers.data import open_corpus
from trainers.data.pair_scores import select_pairs
from trainers.data.prepared_corpus import PreparedCorpus

LANGUAGES = cipher.SOURCE, cipher.TARGET


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of models of both directions, and a corpus."""
    folder = tmp_path_factory.mktemp("scores")
    dataset = cipher.write(folder)
    for name, (source, target), seed in (
        ("ab", LANGUAGES, 5),
        ("ba", LANGUAGES[::-1], 6),
    ):
        tiny.write(folder / name, seed=seed)
        run = {"source_language": source, "target_language": target}
        run["dataset"] = dataset
        ModelDirectory(folder / name).write_run(run)
    return folder


@pytest.fixture(scope="module")
def score(folder):
    """Runs the command."""
    worker = commands.Worker("trainers.score_pairs")
    yield lambda *flags: worker.run(*flags, folder=folder)
    worker.close()


MODELS = "--model_dir=ab", "--reverse_model_dir=ba"


@pytest.fixture(scope="module")
def scored(score):
    return score(*MODELS, "--output=scores")


def read(path):
    return [*map(float, path.read_text().split())]


def test_scores_are_those_of_the_formula(scored, folder):
    assert scored.code == 0, scored.err
    run = ModelDirectory(folder / "ab").read_run()
    corpus = open_corpus(run["dataset"], *LANGUAGES)
    pairs = [*corpus.pairs("train")]
    found = read(folder / "scores")
    assert len(found) == len(pairs)
    models = [load_translator(folder / name) for name in ("ab", "ba")]
    for index in 0, 7, len(pairs) - 1:
        entropies = []
        for translator, (text, other) in zip(
            models, (pairs[index], pairs[index][::-1])
        ):
            (score,) = translator.score([text], [other])
            (ids,) = translator.tokenizer.target.encode([other])
            entropies.append(-score / len(ids))
        one, two = entropies
        expected = -(abs(one - two) + (one + two) / 2)
        assert found[index] == pytest.approx(expected, abs=1e-3)


def test_it_resumes(scored, score, folder):
    content = (folder / "scores").read_bytes()
    # Killed within a line.
    (folder / "scores").write_bytes(content[: len(content) // 2])
    again = score(*MODELS, "--output=scores")
    assert again.code == 0, again.err
    np.testing.assert_allclose(
        read(folder / "scores"), [*map(float, content.split())], atol=1e-3
    )
    same = score(*MODELS, "--output=scores")
    assert same.code == 0, same.err


@pytest.mark.slow
def test_on_ray(scored, folder, ray_cluster):
    models = (f"--model_dir={folder}/ab", f"--reverse_model_dir={folder}/ba")
    output = folder / "on_ray"
    arguments = *models, f"--output={output}", f"--ray={ray_cluster.address}"
    ray_workers.finish(ray_workers.start("trainers.score_pairs", *arguments))
    np.testing.assert_allclose(read(output), read(folder / "scores"), atol=1e-3)


def test_refusals(scored, score, folder):
    before = (folder / "scores").read_bytes()
    for flags, named in (
        (("--model_dir=ba", "--reverse_model_dir=ab"), "expected a model of"),
        (("--model_dir=ab", "--reverse_model_dir=ab"), "expected a model of"),
    ):
        result = score(
            *flags,
            f"--dataset={_dataset(folder)}",
            *_LANGUAGE_FLAGS,
            "--output=scores",
        )
        commands.assert_one_clear_line(result, named)
    tiny.write(folder / "other", seed=9)
    run = ModelDirectory(folder / "ab").read_run()
    ModelDirectory(folder / "other").write_run(run)
    flags = "--model_dir=other", "--reverse_model_dir=ba", "--output=scores"
    commands.assert_one_clear_line(score(*flags), "other models")
    assert (folder / "scores").read_bytes() == before


_LANGUAGE_FLAGS = (
    f"--source_language={LANGUAGES[0]}",
    f"--target_language={LANGUAGES[1]}",
)


def _dataset(folder):
    return ModelDirectory(folder / "ab").read_run()["dataset"]


def test_the_best_pairs_are_prepared(scored, folder):
    prepare = commands.Worker("trainers.prepare")
    flags = (
        *(f"--dataset={_dataset(folder)}", *_LANGUAGE_FLAGS, "--noise=off"),
        *("--vocabulary_size=64", "--pair_scores=scores", "--keep_share=0.25"),
        "--output_dir=best",
    )
    result = prepare.run(*flags, folder=folder)
    assert result.code == 0, result.err
    prepared = PreparedCorpus(folder / "best")
    scores = np.array(read(folder / "scores"))
    train = prepared.manifest.splits["train"]
    assert train.num_pairs == round(0.25 * len(scores))
    assert train.cleaning.score == len(scores) - train.num_pairs
    other = [each.replace("0.25", "0.5") for each in flags]
    commands.assert_one_clear_line(
        prepare.run(*other, folder=folder), "keep_share=0.25"
    )
    lone = [each for each in flags if "pair_scores" not in each]
    commands.assert_one_clear_line(
        prepare.run(*lone, folder=folder), "--pair_scores"
    )
    prepare.close()


def test_the_selected_pairs_have_the_highest_scores(tmp_path):
    path = tmp_path / "s"
    path.write_text("-1\n-5\n-1\n-2\n")
    (tmp_path / "s.json").write_text(json.dumps({"fingerprint": "f"}))
    assert select_pairs(path, 0.5, "f", 4).tolist() == [
        True,
        False,
        True,
        False,
    ]
    assert select_pairs(path, 0.25, "f", 4).tolist() == [True] + 3 * [False]
    for arguments, message in (
        ((0.5, "g", 4), "other pairs"),
        ((0.5, "f", 5), "4 lines"),
    ):
        with pytest.raises(InputError, match=message):
            select_pairs(path, *arguments)
    path.write_text("-1\nx\nnan\n-2\n")
    with pytest.raises(InputError, match="run trainers.score_pairs"):
        select_pairs(path, 0.5, "f", 4)
