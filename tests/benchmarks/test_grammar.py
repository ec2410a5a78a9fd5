import re

import pytest

from tests.benchmarks import decoding
from tests.export.parsing import tiny_parser


@pytest.mark.slow
def test_a_search_beside_one_without_its_grammar(tmp_path):
    tiny_parser.write(tmp_path / "parser")
    words = " ".join(f"(NN w{number})" for number in range(4))
    trees = tmp_path / "trees"
    trees.write_text(f"(TOP (NP {words}))\n" * 3, encoding="utf-8")
    arguments = [
        f"--model_dir={tmp_path / 'parser'}",
        f"--trees={trees}",
        *("--steps=16", "--rounds=2", "--beams=2,3"),
    ]
    result = decoding.run("grammar", *arguments, "--sentences=2")
    assert result.code == 0, result.err
    assert len(re.findall(r"\| [23] \| [\d.]+ \(", result.out)) == 2
    refused = decoding.run("grammar", *arguments, "--sentences=4")
    assert refused.code == 2
    assert "no 4 such sentences" in refused.err
