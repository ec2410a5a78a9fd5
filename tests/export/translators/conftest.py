"""What the tests of translators share."""

import pytest
import tensorflow as tf

from export.translators import graph_translator, translator


@pytest.fixture
def eager(monkeypatch):
    """Searches without a graph: for few sentences, tracing takes longer."""

    def return_function(function, *signature, **options):
        return function

    for module in (graph_translator, translator):
        monkeypatch.setattr(module, "trace_once", return_function)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
