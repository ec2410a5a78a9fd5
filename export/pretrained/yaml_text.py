"""YAML as Marian writes it: texts, lists and mappings, and nothing else.

Every scalar stays the text it is. To YAML's usual readers a piece such as
`no`, `1_000` or `null` of a vocabulary is a truth, a number or nothing, and
the piece would be lost. References to other parts, by which a small file
stands for an endless one, are refused, and so is what is nested deeply.
"""

import yaml

from export.errors import InputError

# A mapping of lists is what Marian writes at most.
_DEEPEST = 4
# libyaml's where PyYAML has it: twenty times as fast.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_yaml_mapping(content, name):
    """Returns what the bytes of a YAML file hold.

    Args:
        content: bytes.
        name: of the file, for messages.

    Returns:
        dict of str to str, list or dict.

    Raises:
        InputError: it is not YAML, holds no mapping, or one of those things
            that Marian does not write.
    """
    try:
        found = _built(yaml.parse(content, Loader=_LOADER))
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name} is not YAML of Marian's: {reason}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{name} must hold a YAML mapping, name to value.")
    return found


def _built(events):
    """Returns the one document of some events; ValueError for no such one."""
    root = _List()
    open_nodes = [root]
    for event in events:
        if getattr(event, "anchor", None) is not None:
            raise ValueError(f"it has a reference, {event.anchor}")
        if isinstance(event, yaml.ScalarEvent):
            open_nodes[-1].add(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            is_list = isinstance(event, yaml.SequenceStartEvent)
            open_nodes.append(_List() if is_list else _Mapping())
            if len(open_nodes) > _DEEPEST:
                raise ValueError("it is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            node = open_nodes.pop()
            open_nodes[-1].add(node.value())
    if len(root.items) != 1:
        raise ValueError(f"it holds {len(root.items)} documents")
    return root.items[0]


class _List:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def value(self):
        return self.items


class _Mapping:
    def __init__(self):
        self._found = {}
        self._key = None

    def add(self, item):
        if self._key is not None:
            self._found[self._key], self._key = item, None
        elif not isinstance(item, str):
            raise ValueError("a name in it is no text")
        elif item in self._found:
            raise ValueError(f"it says {item!r} twice")
        else:
            self._key = item

    def value(self):
        return self._found
