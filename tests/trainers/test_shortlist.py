"""The command that makes a shortlist from attention weights."""

import collections
import gzip

import numpy as np
import pytest

import keras_transformer as kt
from export.model_directory import ModelDirectory
from export.translators.model_backend import model_for_tokenizer
from export.translators.output_vocabulary_files import read_shortlist
from tests import made_up_text
from tests.export import commands, many_languages, tiny


@pytest.mark.parametrize(
    "kind, tags",
    [
        ("plain", ""),
        ("pair", ">>eng_Latn<<>>fra_Latn<<"),
    ],
)
def test_the_command_counts_attention_weights(tmp_path, kind, tags):
    model_path = tmp_path / "model"
    languages = []
    if kind == "plain":
        tiny.write(model_path)
    else:
        many_languages.write_model(model_path, kind)
        languages = ["--target_language=fra_Latn"]
        if kind == "pair":
            languages.append("--source_language=eng_Latn")
    sides = [made_up_text.sentences()[start : start + 6] for start in (0, 40)]
    sides[0][3] = sides[1][4] = ""
    for name, lines in zip("st", sides):
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = f"--input={tmp_path / 's'}", f"--translations={tmp_path / 't'}"
    output = tmp_path / "lex.gz"
    code, out, err = commands.run(
        *("trainers.shortlist", model_path, []),
        *(*files, f"--output={output}", "--best=5", *languages),
    )
    assert code == 0, err
    assert "of 4 pairs" in out[-1]
    directory = ModelDirectory(model_path)
    model, tokenizer = directory.load_model(), directory.load_tokenizer()
    model = model_for_tokenizer(model, tokenizer)
    sides[0] = [line and f"{tags}{line}" for line in sides[0]]
    expected = _counted(model, tokenizer, *sides)
    text = gzip.decompress(output.read_bytes()).decode()
    found = collections.defaultdict(dict)
    for line in text.splitlines():
        target, source, probability = line.split(" ")
        found[source][target] = float(probability)
    everywhere = found.pop("NULL")
    assert sum(everywhere.values()) == pytest.approx(1, abs=1e-4)
    assert found.keys() == expected.keys()
    for source, targets in found.items():
        best = sorted(expected[source].values(), reverse=True)[:5]
        total = sum(expected[source].values())
        assert sorted(targets.values(), reverse=True) == pytest.approx(
            [value / total for value in best], abs=1e-4
        )
        for target, probability in targets.items():
            share = expected[source][target] / total
            assert probability == pytest.approx(share, abs=1e-4)
    # It is what --shortlist takes.
    read_shortlist(output, tokenizer, model.config, 40)


def _counted(model, tokenizer, sources, targets):
    """The weights of the four most attended source tokens, pair by pair."""
    counts = collections.defaultdict(collections.Counter)
    for pair in zip(sources, targets):
        if not all(pair):
            continue
        source = tokenizer.source.encode(pair[:1])[0][None]
        target = tokenizer.target.encode(pair[1:])[0][None]
        weights = np.asarray(kt.force_align(model, source, target))[0]
        for row, number in zip(weights, target[0]):
            for place in np.argsort(-row)[:4]:
                one = int(source[0, place])
                if number > 3 and one > 3:
                    source_name = tokenizer.source.id_to_token(one)
                    target_name = tokenizer.target.id_to_token(int(number))
                    counts[source_name][target_name] += float(row[place])
    return counts
