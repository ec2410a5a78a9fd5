"""The example configuration files say what a server understands."""

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from tests.export import tiny

FOLDER = tiny.ROOT / "docs" / "serving"


def test_labels_are_of_versions_that_are_served():
    config = text_format.Parse(
        (FOLDER / "models.config").read_text(),
        model_server_config_pb2.ModelServerConfig(),
    )
    (model,) = config.model_config_list.config
    served = set(model.model_version_policy.specific.versions)
    assert model.name == "translator"
    assert set(model.version_labels) == {"stable", "canary"}
    assert set(model.version_labels.values()) <= served
