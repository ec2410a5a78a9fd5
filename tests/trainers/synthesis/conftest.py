import pytest

from tests.export import tiny


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    """The folder of a tiny model, which no test may change."""
    path = tmp_path_factory.mktemp("synthesis") / "model"
    # As of tests/export/conftest.py: all its translations are some words.
    tiny.write(path, seed=5, num_layers=1)
    return path


@pytest.fixture(scope="session")
def translator(model_path):
    return tiny.translator(model_path)
