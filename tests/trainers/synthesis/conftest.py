import pytest

from tests import made_up_text
from tests.export import tiny


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    """The folder of a tiny model, which no test may change."""
    path = tmp_path_factory.mktemp("synthesis") / "model"
    # As in tests/export: no translation is empty.
    tiny.write(path, seed=5)
    return path


@pytest.fixture(scope="session")
def translator(model_path):
    return tiny.translator(model_path)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A file of 3,000 lines."""
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text("\n".join(made_up_text.sentences(3000)) + "\n")
    return path
