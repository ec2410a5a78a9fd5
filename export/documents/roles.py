"""Finds what each part of HTML or XML is in the text, and what is not text."""

import enum
import re

from export.documents.elements import HTML, OPAQUE, RAW_TEXT, RUBY_TEXT, Role
from export.documents.scanner import Token, scan
from export.documents.vocabularies import (
    UNKNOWN,
    find_vocabulary,
    local_name,
)

# States of <target> of XLIFF whose text is that of the source; "initial" is
# the state of a <segment>.
_UNTRANSLATED = ("initial", "needs-translation", "new")
# Selectors of global rules of ITS that are read, those of one name.
_SELECTOR = re.compile(r"//(?:[\w.-]+:)?([\w.-]+)")
# With its end: what has none would take the rest of the document.
_ESCAPED_TAG = re.compile(
    r"&(?:lt|#0*60|#x0*3c);/?[a-z!](?:(?!&lt;).)*?(?:&gt;|>)", re.I | re.S
)
_YES_OR_NO = {"": True, "yes": True, "true": True, "no": False, "false": False}


class _State(enum.Enum):
    """Whether a part of a document is translated."""

    # It is.
    TEXT = enum.auto()
    # Only elements of `Vocabulary.text` within it are.
    OUTSIDE = enum.auto()
    # Only elements that say so themselves are.
    KEPT = enum.auto()


class _Frame:
    """An element that begins or ends the text; see `assign_roles`."""

    __slots__ = ("name", "state", "role", "raws", "depth")

    def __init__(self, name, state, role=Role.BLOCK):
        self.name, self.state, self.role = name, state, role
        # What it has until now, if that is not translated.
        self.raws = []
        self.depth = 1

    def end(self, raw=""):
        """Returns what is not translated as one Token, and its Role."""
        token = Token("".join([*self.raws, raw]), "data", self.name)
        self.raws.clear()
        return token, self.role


def assign_roles(text, start, is_xml, keep_elements=()):
    """Yields the Tokens of a document, and the Role of each.

    An element that is not translated is one Token. `keep_elements` are names
    of such. As ITS says, what an attribute says holds for all that is within
    the element, except what says otherwise; that ends the sentence.
    """
    if is_xml:
        rules = _XmlRules(scan(text, start, True), keep_elements)
    else:
        rules = _HtmlRules(keep_elements)
    frames = [_Frame("", rules.base)]
    for index, token in enumerate(scan(text, start, is_xml)):
        frame = frames[-1]
        if token.kind == "text" and frame.state is _State.TEXT:
            # Sooner, for most tokens.
            has_tags = rules.has_html and _ESCAPED_TAG.search(token.raw)
            yield token, Role.HTML if has_tags else Role.INLINE
            continue
        if token.name == frame.name and token.kind == "end":
            frame.depth -= 1
            if not frame.depth:
                yield frames.pop().end(token.raw)
                continue
        role, wish = Role.BLOCK, None
        if token.kind == "start":
            wish = rules.read_wish(token, index)
        if frame.state is not _State.KEPT:
            role = rules.find_role(token, index, wish)
        if frame.state is _State.OUTSIDE:
            role = Role.KEPT if role in OPAQUE else Role.BLOCK
        state = frame.state
        if token.kind == "start":
            state = _next_state(state, token, role, wish, rules)
        if state is not frame.state:
            if state is not _State.KEPT and frame.raws:
                # What is translated within what is not.
                frame.role = Role.BLOCK
                yield frame.end()
            role = Role.WORDS if role is Role.INLINE else role
            frames.append(frame := _Frame(token.name, state, role))
        elif token.kind == "start" and token.name == frame.name:
            frame.depth += 1
        if frame.state is _State.KEPT:
            frame.raws.append(token.raw)
        else:
            yield token, role
    yield frames[-1].end()


def _next_state(state, token, role, wish, rules):
    """Returns the _State within the element of a start tag."""
    if wish is False or (state is not _State.KEPT and role in OPAQUE):
        return _State.KEPT
    if state is _State.OUTSIDE or (state is _State.KEPT and wish):
        return _State.TEXT if rules.is_text(token) else rules.base
    return state


def _read_attribute_wish(token):
    """Returns what a tag says: True for translate="yes", or False, or None."""
    raw = token.raw.lower()
    # Most have none of it.
    if "translat" not in raw and "protected" not in raw:
        return None
    attributes = token.read_attributes()
    if "notranslate" in attributes.get("class", "").lower().split():
        return False
    if attributes.get("mtype") == "protected":
        return False
    for name, value in attributes.items():
        if local_name(name) in ("translate", "translatable"):
            return _YES_OR_NO.get(value.strip().lower())
    return None


def _find_html_role(token):
    """Returns the Role of a tag by the table of elements."""
    role = HTML.get(token.name, Role.INLINE)
    if role is Role.INLINE:
        return role
    if token.kind == "end" and role is not Role.BREAK:
        is_block = role in (Role.BLOCK, Role.KEPT)
        return Role.BLOCK if is_block else Role.INLINE
    if token.name == "input":
        kind = token.read_attributes().get("type", "")
        return Role.HIDDEN if kind.lower() == "hidden" else role
    return role


def _open(role):
    """Returns the Role of an element that is translated although OPAQUE."""
    if role not in OPAQUE:
        return role
    return Role.BLOCK if role is Role.KEPT else Role.INLINE


class _HtmlRules:
    """Roles by the table of elements."""

    base, has_html = _State.TEXT, False

    def __init__(self, keep_elements):
        self._keep_elements = {name.lower() for name in keep_elements}

    def is_text(self, token):
        return True

    def read_wish(self, token, index):
        wish = _read_attribute_wish(token)
        if wish is None and token.name in self._keep_elements:
            return False
        return wish

    def find_role(self, token, index, wish):
        if not token.name:
            return Role.HIDDEN
        role = _find_html_role(token)
        if role is Role.HIDDEN and token.name in RUBY_TEXT:
            # It often has no end tag; what it has is one Token.
            return Role.INLINE
        return _open(role) if wish and token.name not in RAW_TEXT else role


class _Element:
    """An XML element that is not yet closed."""

    __slots__ = ("token", "index", "number", "children")

    def __init__(self, token, index, number):
        self.token, self.index, self.number = token, index, number
        # Names to the indices of their last start tags.
        self.children = {}


class _XmlRules:
    """Roles by the vocabulary, and by what has text besides elements.

    Args:
        tokens: all Tokens of the document, which are not kept, since they
            take much memory.
        keep_elements: names of elements that are not translated.
    """

    def __init__(self, tokens, keep_elements):
        self._wishes = dict.fromkeys(keep_elements, False)
        # Of each token its parent; of each element whether it has text.
        self._parents, self._has_text = [], [False]
        # Indices of the start tags of what is translated already.
        self._finished = set()
        self._vocabulary = UNKNOWN
        self._read(tokens)
        has_names = self._vocabulary.text
        self.base = _State.OUTSIDE if has_names else _State.TEXT
        self.has_html = self._vocabulary.has_html

    def _read(self, tokens):
        # The root element's parent is the first.
        stack = [_Element(Token("", ""), 0, 0)]
        names = set()
        for index, token in enumerate(tokens):
            if token.kind == "end":
                self._add_finished(stack.pop(), stack[-1])
            parent = stack[-1]
            self._parents.append(parent.number)
            if token.kind in ("start", "empty"):
                if not names:
                    self._vocabulary = find_vocabulary(token)
                names.add(local_name(token.name))
                parent.children[local_name(token.name)] = index
                self._read_rule(token)
            if token.kind == "start":
                stack.append(_Element(token, index, len(self._has_text)))
                self._has_text.append(False)
            elif token.kind == "text" and not token.raw.isspace():
                self._has_text[parent.number] = True
        text = self._vocabulary.text
        if text and not text & names:
            # Another vocabulary, of which the root has the same name.
            self._vocabulary = UNKNOWN

    def _add_finished(self, element, parent):
        """Adds <target> of XLIFF and its <source>, if it is a translation."""
        is_target = local_name(element.token.name) == "target"
        if not is_target or "target" not in self._vocabulary.text:
            return
        attributes = parent.token.read_attributes()
        attributes |= element.token.read_attributes()
        has_content = self._has_text[element.number] or element.children
        if has_content and attributes.get("state") not in _UNTRANSLATED:
            self._finished |= {element.index, parent.children.get("source")}

    def _read_rule(self, token):
        """Reads a <translateRule> of ITS."""
        if local_name(token.name) == "translateRule":
            attributes = token.read_attributes()
            found = _SELECTOR.fullmatch(attributes.get("selector", ""))
            wish = _YES_OR_NO.get(attributes.get("translate"))
            if found and wish is not None:
                self._wishes[found[1]] = wish

    def is_text(self, token):
        """Whether an element is text where others are not."""
        names = self._vocabulary.text
        return not names or local_name(token.name) in names

    def read_wish(self, token, index):
        wish = _read_attribute_wish(token)
        if wish is None and index in self._finished:
            return False
        for name in (token.name, local_name(token.name)):
            if wish is None:
                wish = self._wishes.get(name)
        return wish

    def find_role(self, token, index, wish):
        is_inline = self._has_text[self._parents[index]]
        if token.kind in ("text", "comment"):
            return Role.HIDDEN
        if token.kind == "data":
            other = Role.HTML if self.has_html else Role.BLOCK
            return Role.WORDS if is_inline else other
        if self._vocabulary.is_html:
            role = _find_html_role(token)
            return _open(role) if wish else role
        roles = self._vocabulary.roles
        role = roles.get(token.name) or roles.get(local_name(token.name))
        if wish or token.kind == "end":
            role = role and _open(role)
        if role is Role.INLINE:
            return role
        if not is_inline:
            return Role.KEPT if role in OPAQUE else Role.BLOCK
        # Empty elements stand for something.
        other = Role.WORDS if token.kind == "empty" else Role.INLINE
        return role or other
