"""Puts the documents at the top of the repository into the site.

The site has them beside the content of docs/, so links between the two change.
MkDocs calls `on_files` and the functions after it.
"""

import pathlib
import posixpath
import re

import griffe
from mkdocs.structure.files import File

_ROOT = pathlib.Path(__file__).parents[2]
_DOCUMENTS = [path.name for path in _ROOT.glob("*.md")]
# [text](path#section), and src="path" in HTML.
_LINK = re.compile(
    r'(?P<start>\[(?P<text>[^\]]*)\]\(|src(?:set)?=")'
    r'(?P<path>[^)":#]+)(?P<end>[^)"]*[)"])'
)


def on_files(files, config):
    """Adds the documents."""
    for name in _DOCUMENTS:
        files.append(_new_file(name, config))


def on_page_markdown(markdown, page, config, files):
    """Changes links to files of the repository.

    Files outside docs/ become files of the site, since the repository has no
    address; links to folders become text.
    """
    name = page.file.src_uri
    folder = posixpath.dirname(name)
    base = "" if name in _DOCUMENTS else posixpath.join("docs", folder)

    def change(match):
        path = posixpath.normpath(posixpath.join(base, match["path"]))
        if (_ROOT / path).is_dir():
            return match["text"]
        if not (_ROOT / path).is_file():
            return match[0]
        site_path = path.removeprefix("docs/")
        if files.get_file_from_path(site_path) is None:
            files.append(_new_file(path, config))
        link = posixpath.relpath(site_path, folder)
        return f"{match['start']}{link}{match['end']}"

    return _LINK.sub(change, markdown)


def on_page_content(html, **_):
    """Links `kt.` and a name to the reference."""
    return re.sub(
        r"<code>kt\.(\w+)</code>",
        r'<autoref identifier="keras_transformer.\1">\g<0></autoref>',
        html,
    )


def _new_file(path, config):
    return File.generated(config, path, abs_src_path=str(_ROOT / path))


class FieldDefaults(griffe.Extension):
    """Shows the default of a TransformerConfig's field, not its validation."""

    def on_attribute_instance(self, *, attr, **_):
        """Replaces `int_field(roles, default, ...)` by the default."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value).startswith(
            ("int_field(", "float_field(", "bool_field(", "choice_field(")
        ):
            default = value.arguments[1]
            is_required = str(default) == "dataclasses.MISSING"
            attr.value = None if is_required else default
