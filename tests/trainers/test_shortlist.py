"""The command that makes a shortlist of what a model attends to."""

import collections
import gzip

import numpy as np
import pytest

import keras_transformer as kt
from export.model_directory import ModelDirectory
from export.translators.output_vocabulary_files import read_shortlist
from tests import made_up_text
from tests.export import commands, tiny


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("attends")
    tiny.write(path)
    return path


def test_the_command_counts_what_the_model_attends_to(model_path, tmp_path):
    sides = [made_up_text.sentences()[start : start + 30] for start in (0, 40)]
    sides[0][3] = sides[1][4] = ""
    for name, lines in zip("st", sides):
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = f"--input={tmp_path / 's'}", f"--translations={tmp_path / 't'}"
    output = tmp_path / "lex.gz"
    code, said, told = commands.run(
        *("trainers.shortlist", model_path, []),
        *(*files, f"--output={output}", "--best=5"),
    )
    assert code == 0, told
    assert "of 28 pairs" in said[-1]
    directory = ModelDirectory(model_path)
    model, tokenizer = directory.load_model(), directory.load_tokenizer()
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
    """The weights of the four most attended source pieces, one by one."""
    counts = collections.defaultdict(collections.Counter)
    for pair in zip(sources, targets):
        if not all(pair):
            continue
        source, target = (ids[None] for ids in tokenizer.encode(list(pair)))
        weights = np.asarray(kt.force_align(model, source, target))[0]
        for row, number in zip(weights, target[0]):
            for place in np.argsort(-row)[:4]:
                one = int(source[0, place])
                if number > 3 and one > 3:
                    names = map(tokenizer.id_to_token, (one, int(number)))
                    source_name, target_name = names
                    counts[source_name][target_name] += float(row[place])
    return counts


def test_the_command_refuses_text_without_pairs(model_path, tmp_path):
    (tmp_path / "s").write_text("a\n\n", encoding="utf-8")
    (tmp_path / "t").write_text("\nb\n", encoding="utf-8")
    code, _, told = commands.run(
        *("trainers.shortlist", model_path, [], f"--output={tmp_path / 'lex'}"),
        *(f"--input={tmp_path / 's'}", f"--translations={tmp_path / 't'}"),
    )
    assert code == 2
    assert "No pair of" in told[-1]
    assert not (tmp_path / "lex").exists()
