"""What the tests of parsing share."""

import pytest

from tests.export.parsing import tiny_parser


@pytest.fixture(scope="session")
def parser_path(tmp_path_factory):
    """The model directory of a tiny parser; no test may change it."""
    path = tmp_path_factory.mktemp("parser")
    tiny_parser.write(path, max_extra_tokens=20)
    return path
