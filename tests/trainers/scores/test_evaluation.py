"""Scores against sacreBLEU, a perl pipeline and NumPy."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu

from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.export import tiny
from trainers.data.corpus import EvaluationSet
from trainers.scores import evaluation
from trainers.scores.evaluation import (
    Perplexity,
    bleu_difference,
    bleu_interval,
    evaluate,
    measure_perplexity,
    score_bleu,
    score_chrf,
    score_compound_split,
    translate_sentences,
)

HYPOTHESES = [
    "The cat sat on the mat, didn't it?",
    "A dog was running in the park .",
    "",
    "«Ja», sagte er: 3,5 % mehr!",
    "two men in a boat are fishing on the lake",
    "An unrelated line.",
]
REFERENCES = [
    ("The cat sat on the mat, didn't it?", "A cat was sitting on a mat."),
    ("A dog is running in the park.", "The dog runs through the park."),
    ("Nothing to see here.", "There is nothing."),
    ("„Ja“, sagte er: 3,5 % mehr!", "«Ja», meinte er: 3,5 % mehr."),
    ("Two men are fishing on the lake.", "two men in a boat on a lake"),
    ("What it should have been.", "Something else entirely."),
]


def evaluation_set(references):
    sources = tuple(f"source {i}" for i in range(len(references)))
    return EvaluationSet(sources, tuple(references))


@pytest.fixture
def sacrebleu_command(tmp_path):
    """Function of references and options: what the command prints."""

    def run(references, *options):
        streams = list(zip(*references))
        for number, texts in enumerate([HYPOTHESES, *streams]):
            text = "".join(f"{text}\n" for text in texts)
            (tmp_path / f"{number}").write_text(text, encoding="utf-8")
        names = [f"{n + 1}" for n in range(len(streams))]
        command = [sys.executable, "-m", "sacrebleu", *names, "-i", "0"]
        output = subprocess.check_output([*command, *options], cwd=tmp_path)
        return json.loads(output)

    return run


@pytest.mark.parametrize(
    ("tokenize", "count"),
    [("13a", 1), ("ja-mecab", 2)],
)
def test_equals_the_sacrebleu_command(sacrebleu_command, tokenize, count):
    references = [group[:count] for group in REFERENCES]
    texts = (HYPOTHESES, evaluation_set(references))
    bleu, chrf = score_bleu(*texts, tokenize), score_chrf(*texts)
    options = ("--tokenize", tokenize, "--force")
    found = sacrebleu_command(
        references, *("-m", "bleu", "chrf", "-w", "12", *options)
    )
    for score, expected in zip((bleu, chrf), found):
        assert round(score.score, 12) == expected["score"]
        assert score.signature == expected["signature"]
        assert 10 < score.score < 90
    assert f"ref_len = {bleu.reference_length})" in found[0]["verbose_score"]
    assert bleu.line.startswith(f"BLEU|{bleu.signature} = {bleu.score:.2f} ")


def test_the_interval_is_that_of_the_sacrebleu_command(sacrebleu_command):
    references = [group[:1] for group in REFERENCES]
    interval = bleu_interval(HYPOTHESES, evaluation_set(references), "13a")
    options = ("-m", "bleu", "-w", "9", "-ci", "--tokenize", "13a")
    found = sacrebleu_command(references, *options)
    mean, half = found["confidence_mean"], found["confidence_var"]
    assert half > 1
    assert interval.low == pytest.approx(mean - half, abs=2e-9)
    assert interval.high == pytest.approx(mean + half, abs=2e-9)
    assert interval.bootstrap in found["signature"]


def test_lines_that_cannot_be_scored_are_skipped():
    """One without a source and one without a reference, among others."""
    references = [group[:1] for group in REFERENCES]
    sources = [f"source {i}" for i in range(6)]
    perplexity = Perplexity(per_token=2.5, tokens=1234, skipped=2)
    expected, _ = evaluate(
        HYPOTHESES, evaluation_set(references), "13a", perplexity
    )
    texts = list(HYPOTHESES)
    for index, source, group in ((4, "source", ()), (1, " ", REFERENCES[0])):
        sources.insert(index, source)
        references.insert(index, group)
        texts.insert(index, "A dog was running in the park .")
    with_blanks = EvaluationSet(tuple(sources), tuple(references))
    found, lines = evaluate(texts, with_blanks, "13a", perplexity)
    assert found["not_scored"] == 2
    assert {**found, "not_scored": 0} == expected
    expected = "perplexity = 2.5000 per token, over 1,234 tokens of 4 "
    assert lines[-2].startswith(expected)


def test_paired_difference_equals_scores_of_resampled_texts(monkeypatch):
    monkeypatch.setattr(evaluation, "BOOTSTRAP_SAMPLES", 40)
    worse = [" ".join(text.split()[:4]) for text in HYPOTHESES]
    references = evaluation_set(REFERENCES)
    streams = references.reference_streams()

    def difference(places):
        resampled = [[stream[n] for n in places] for stream in streams]
        scores = [
            sacrebleu.corpus_bleu([texts[n] for n in places], resampled).score
            for texts in (HYPOTHESES, worse)
        ]
        return scores[0] - scores[1]

    generator = np.random.default_rng(12345)
    places = generator.choice(len(HYPOTHESES), size=(40, len(HYPOTHESES)))
    low, high = np.percentile([*map(difference, places)], [2.5, 97.5])
    found = bleu_difference(HYPOTHESES, worse, references, "13a")
    assert found == {
        "difference": pytest.approx(difference(range(6))),
        "low": pytest.approx(low),
        "high": pytest.approx(high),
        "bootstrap": "bs:40|seed:12345",
    }
    assert found["difference"] > 0


GERMAN = [
    "Das rich-text-Format ist in der EU-Kommission bekannt, sagte „Müller“.",
    "Er kam um 10.30 Uhr - nicht um 9-10 Uhr - in das A-B-C-Haus & ging.",
    "»Gut«, so heißt’s im 3,5-fachen Test mit “vielen” Worten: (ja)!",
    "Die Frau steht auf der Straße und sieht den Hund an .",
]
GERMAN_REFERENCES = [
    (
        'Das Rich-text-Format ist in der EU-Kommission bekannt, so "Müller".',
        "Das Format ist bekannt, so „Müller“.",
    ),
    (
        "Er kam um 10.30 Uhr - nicht um 9-10 Uhr - in das A-B-C-Haus und ging.",
        "Er kam um 10.30 Uhr in das A-B-C-Haus.",
    ),
    (
        "„Gut“, so heißt's im 3,5-fachen Test mit vielen Worten: (ja)!",
        "«Gut», heißt es im Test mit “vielen” Worten!",
    ),
    (
        "Die Frau steht auf der Straße und sieht einen Hund an.",
        "Eine Frau sieht den Hund an .",
    ),
]
QUOTES = r"""sed -E "s/„|“|”|«|»/\"/g; s/‚|‘|’/'/g" """
# The rules of mteval-v13a.pl for languages with spaces.
TOKENIZE = r"""perl -CSD -ple '
  $_ = " $_ ";
  s/([\{-\~\[-\` -\&\(-\+\:-\@\/])/ $1 /g;
  s/([^0-9])([\.,])/$1 $2 /g;
  s/([\.,])([^0-9])/ $1 $2/g;
  s/([0-9])(-)/$1 $2 /g;
  s/\s+/ /g; s/^ | $//g;'"""
SPLIT = r"""perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g'"""


@pytest.mark.parametrize(("count", "tokenize"), [(1, "none"), (2, "13a")])
def test_compound_split_equals_a_pipeline_of_perl(tmp_path, count, tokenize):
    def shell(command):
        return subprocess.check_output(
            command, shell=True, text=True, cwd=tmp_path
        )

    steps = [QUOTES, *[TOKENIZE] * (tokenize == "13a"), SPLIT]
    references = [group[:count] for group in GERMAN_REFERENCES]
    split = []
    for lines in [GERMAN, *zip(*references)]:
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / "raw").write_text(text)
        split.append(shell(f"cat raw | {' | '.join(steps)}").splitlines())
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    expected = metric.corpus_score(split[0], split[1:]).score
    score = score_compound_split(GERMAN, evaluation_set(references), tokenize)
    assert 20 < expected < 95
    assert score.score == pytest.approx(expected, abs=1e-8)
    how = f"|pretok:{tokenize}|hyphens:split|"
    assert f"{how}nrefs:{count}|" in score.signature


def test_compound_split_of_chinese_and_spaces():
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    words = "他 说 rich ##AT##-##AT## text 很 {} 。".format
    right = metric.corpus_score([words("好")], [[words("坏")]]).score
    for text, reference, tokenize, score in (
        ("他说 rich-text 很坏。", "他说 rich-text 很好。", "zh", right),
        # Without smoothing.
        ("v w x y z", "a b c d e", "none", 0),
        # A no-break space is a character to a perl that reads bytes, as the
        # authors' did.
        (
            "eins\u00a0-\u00a0zwei drei vier",
            "eins-zwei drei vier",
            "none",
            100,
        ),
    ):
        one = evaluation_set([(reference,)])
        found = score_compound_split([text], one, tokenize).score
        assert found == pytest.approx(score)


def _perplexity(translator, pairs):
    """NumPy's of a model's logits, sentence by sentence."""
    total, count = 0.0, 0
    for source, target in pairs:
        source, target = translator.tokenizer.encode([source, target])
        begun = np.array([[BEGIN_ID, *target[:-1]]], np.int32)
        logits = translator.model({"source": source[None], "target": begun})
        scores = np.float64(logits)[0]
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        total += scores[np.arange(len(target)), target].sum()
        count += len(target)
    return math.exp(-total / count), count


def test_perplexity_equals_numpy_over_all_references_that_fit(monkeypatch):
    translator = Translator.from_model(
        tiny.model(), Tokenizer(made_up_text.vocabulary())
    )
    monkeypatch.setattr(translator.backend, "max_source_tokens", 14)
    long = "ba doké fà luno te né " * 3
    scored = {
        "ba doké.": ("doké ba", "ba."),
        "fà luno ba": ("luno fà te ba",),
        long: ("ba",),
        "te": (long, "ba"),
        "": ("né",),
        # Of no token, but not blank.
        "\u200b": ("ba",),
    }
    pairs = [(s, each) for s, group in scored.items() for each in group]
    skipped = {long, "", "\u200b"}
    pairs = [pair for pair in pairs if not skipped & {*pair}]
    expected, count = _perplexity(translator, pairs)
    references = EvaluationSet(tuple(scored), tuple(scored.values()))
    found = measure_perplexity(translator, references)
    assert (found.tokens, found.skipped) == (count, 3)
    assert found.per_token == pytest.approx(expected, rel=1e-5)
    assert expected > 2
    alone = EvaluationSet((long,), (("ba",),))
    assert measure_perplexity(translator, alone) is None


def test_truncated_sources_are_not_scored_silently(tmp_path, capsys):
    tiny.write(tmp_path, seed=5)
    translator = tiny.translator(tmp_path)
    texts = ["ba", "ba " * 600, "ba " * 3]
    assert len(translate_sentences(translator, texts)) == 3
    assert "1 of the lines (2)" in capsys.readouterr().err
    translate_sentences(translator, texts[::2])
    assert not capsys.readouterr().err
