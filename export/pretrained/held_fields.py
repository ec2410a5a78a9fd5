"""Which fields of a configuration a format cannot hold: an allow-list."""

import dataclasses

from export.pretrained.known_fields import ANY

# Fields of these roles say nothing of a trained model.
_OF_TRAINING = {"training", "ending"}


def fields_not_held(config, held):
    """Returns the fields of a configuration that a format cannot hold.

    Args:
        config: TransformerConfig.
        held: dict, name to a tuple of the values that the format can hold, or
            `ANY`. Of fields that are not in it there is the default alone.

    Returns:
        A list of str, each as "name=value".
    """
    found = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        allowed = held.get(field.name, (field.default,))
        roles = set(field.metadata.get("roles", ()))
        if roles and roles <= _OF_TRAINING:
            continue
        if allowed is not ANY and value not in allowed:
            found.append(f"{field.name}={value}")
    return found
