"""Runs the page's scripts in Node.js, and compares them with the model."""

import json
import subprocess
import tempfile
import typing
from collections.abc import Mapping

import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.page.page_files import SCRIPTS_WITHOUT_PAGE
from export.page.weights import round_weights
from export.serving.export_directory import random_texts
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import pad_ids, truncation_limit

# Number of tokens of each text.
_LENGTHS = (8, 3, 12, 1, 5, 9, 2, 7, 20, 4)
# Inputs of products are rounded, and random texts have several likely
# translations.
_SCORE_TOLERANCE, _LEAST_EQUAL = 0.02, 0.7
_SEARCH = """({ texts, rows }) => {
  const parts = modelParts.map(part => Buffer.from(part, "base64"));
  const translateIds = createEngine(model, Buffer.concat(parts));
  return [
    texts.map(createTokenizer(model.vocabularies[0]).encode),
    rows.map(ids => translateIds(ids, model.config.beam_size)[0]),
  ];
}"""


def check_files(
    files: Mapping[str, bytes], model: kt.Transformer, vocabulary: bytes
) -> str:
    """Compares the files of `make_files` with their model; returns a result.

    The model then has the rounded weights. Raises InputError if ids, many
    translations or their scores differ.
    """
    tokenizer = load_python_tokenizers(vocabulary).source
    texts = random_texts(tokenizer.proto, _LENGTHS)
    expected_ids = [tokenizer.ids(text) for text in texts]
    most = truncation_limit(model.config, max(map(len, expected_ids)))
    rows = [ids[-most:] for ids in expected_ids]
    argument = {"texts": texts, "rows": rows}
    found_ids, hypotheses = run_javascript(_SEARCH, argument, files)
    round_weights(model)
    search = kt.BeamSearchConfig.from_config(model.config, min_length=1)
    expected = kt.translate_ids(model, pad_ids(rows), config=search)
    num_equal, largest = 0, 0.0
    for hypothesis, tokens, score in zip(
        hypotheses,
        np.asarray(expected.tokens)[:, 0].tolist(),
        np.asarray(expected.scores)[:, 0].tolist(),
    ):
        if hypothesis["tokens"] == [each for each in tokens if each]:
            difference = abs(hypothesis["score"] - score) / (1 + abs(score))
            num_equal, largest = num_equal + 1, max(largest, difference)
    result = (
        f"{num_equal} of {len(rows)} translations of random texts are equal to "
        f"the model's, scores differ by up to {largest:.1e}"
    )
    if (
        found_ids != expected_ids
        or num_equal < _LEAST_EQUAL * len(rows)
        or largest > _SCORE_TOLERANCE
    ):
        raise InputError(
            f"The page does not compute what the model does in Node.js "
            f"({result}); nothing was written. --nocheck would skip the check."
        )
    return result


def run_javascript(
    function: str, argument: typing.Any, files: Mapping[str, bytes]
) -> typing.Any:
    """Returns what a function of JavaScript returns for an argument, JSON.

    The function may use the scripts and the model of the page's `files`. Raises
    InputError if Node.js fails.
    """
    call = f"({function})(JSON.parse(require('fs').readFileSync(0)))"
    scripts = [
        *(files[name] for name in files if name.startswith("model-")),
        *(path.read_bytes() for path in SCRIPTS_WITHOUT_PAGE),
        f"process.stdout.write(JSON.stringify({call}))".encode(),
    ]
    with tempfile.NamedTemporaryFile(suffix=".js") as program:
        program.write(b"\n".join(scripts))
        program.flush()
        done = subprocess.run(
            ["node", program.name],
            input=json.dumps(argument).encode(),
            capture_output=True,
        )
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        reason = next((each for each in lines if "Error" in each), "no reason")
        raise InputError(
            f"Node.js cannot run the page ({reason}); install version 18 or "
            "newer. --nocheck would skip the check."
        )
    return json.loads(done.stdout)
