"""What `from_preset` makes of a model directory."""

import json

from export.model_directory import ModelDirectory

# Of a Keras object's config.json, and of no model directory's.
_OF_PRESETS = "registered_name"


class FromModelDirectory:
    """A mixin: `from_preset` takes a model directory, too."""

    @classmethod
    def from_preset(cls, preset, **kwargs):
        """Loads a preset, or what a model directory of ours holds.

        Args:
            preset: path of a model directory, or what KerasHub takes.
            **kwargs: what KerasHub's own method takes.

        Raises:
            ValueError: the preset is of another class, or is none.
            InputError: the model directory is not whole, or no translator's.
        """
        if is_model_directory(preset):
            return cls.of_directory(ModelDirectory(preset), **kwargs)
        return super().from_preset(preset, **kwargs)


def is_model_directory(path):
    """Returns whether a path is of a model directory, and not of a preset."""
    directory = ModelDirectory(path)
    try:
        fields = json.loads(directory.config_path.read_bytes())
    except (OSError, ValueError):
        return directory.vocabulary_path.exists()
    return "num_layers" in fields and _OF_PRESETS not in fields
