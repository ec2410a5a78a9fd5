"""Finds the Role of each part of HTML or XML, and what is not translated."""

import enum
import re
import typing
from collections.abc import Collection, Iterator

from export.documents.elements import HTML, OPAQUE, RAW_TEXT, RUBY_TEXT, Role
from export.documents.scanner import Token, scan
from export.documents.xml_dialects import UNKNOWN, find_dialect, local_name

# States of <target> of XLIFF whose text is that of the source; "initial" is
# the state of a <segment>.
_UNTRANSLATED = ("initial", "needs-translation", "new")
# The selectors of global rules of ITS that are read: those of one name.
_SELECTOR = re.compile(r"//(?:[\w.-]+:)?([\w.-]+)")
# With its end: a tag without one would take the rest of the document.
_ESCAPED_TAG = re.compile(
    r"&(?:lt|#0*60|#x0*3c);/?[a-z!](?:(?!&lt;).)*?(?:&gt;|>)", re.I | re.S
)
_YES_OR_NO = {"": True, "yes": True, "true": True, "no": False, "false": False}


class _State(enum.Enum):
    """Which part of a region is translated."""

    ALL = enum.auto()
    NAMED = enum.auto()  # Elements of `Dialect.translated_names`: <source>.
    NONE = enum.auto()  # Elements with translate="yes".


class _Region:
    """The content of an element whose _State differs from that around it.

    `depth` counts the open elements of its name, so that the first </b> of
    '<b translate="no">x <b>y</b> z</b>' does not end the region.
    """

    __slots__ = ("name", "state", "role", "raws", "depth")

    def __init__(self, name, state, role=Role.BLOCK):
        self.name, self.state, self.role = name, state, role
        # The characters that are not translated, and not yet yielded.
        self.raws = []
        self.depth = 1

    def flush(self, raw=""):
        """Returns the characters so far and `raw` as one (Token, Role)."""
        token = Token("".join([*self.raws, raw]), "data", self.name)
        self.raws.clear()
        return token, self.role


def assign_roles(
    text: str, start: int, is_xml: bool, keep_elements: Collection[str] = ()
) -> Iterator[tuple[Token, Role]]:
    """Yields (Token, Role) for each part of a document.

    An element that is not translated is one Token: "a <kbd>F<b>1</b></kbd>"
    gives ("a ", INLINE) and ("<kbd>F<b>1</b></kbd>", WORDS). `keep_elements`
    are further names of such elements. As in ITS, an attribute holds for all
    that is within the element, except elements that have another one.
    """
    rules: _XmlRules | _HtmlRules
    if is_xml:
        rules = _XmlRules(_XmlSurvey(scan(text, start, True), keep_elements))
    else:
        rules = _HtmlRules(keep_elements)
    reader = _RegionReader(rules)
    # The index of a token is the same as in the scan for _XmlSurvey.
    for index, token in enumerate(scan(text, start, is_xml)):
        yield from reader.read(token, index)
    yield reader.regions[-1].flush()


class _RegionReader:
    """Follows the regions of a document, by the rules for HTML or XML."""

    def __init__(self, rules):
        self._rules = rules
        # Each is within the one before.
        self.regions = [_Region("", rules.find_state(Token("", "")))]

    def read(self, token, index):
        """Returns the pairs (Token, Role) that a Token completes."""
        region = self.regions[-1]
        if token.kind == "start":
            return self._start(token, index)
        if token.kind == "end" and token.name == region.name:
            region.depth -= 1
            if not region.depth:
                return [self.regions.pop().flush(token.raw)]
        if region.state is _State.NONE:
            region.raws.append(token.raw)
            return ()
        if token.kind == "text" and region.state is _State.ALL:
            has_tags = self._rules.has_html and _ESCAPED_TAG.search(token.raw)
            return [(token, Role.HTML if has_tags else Role.INLINE)]
        return [(token, self._find_role(token, index))]

    def _start(self, token, index):
        region, outputs = self.regions[-1], []
        translate = self._rules.read_translate(token, index)
        role = self._find_role(token, index, translate)
        state = self._next_state(token, role, translate)
        if state is region.state:
            region.depth += token.name == region.name
        else:
            if region.raws and state is not _State.NONE:
                # Before <b translate="yes"> within <p translate="no">.
                region.role = Role.BLOCK
                outputs.append(region.flush())
            role = Role.WORDS if role is Role.INLINE else role
            region = _Region(token.name, state, role)
            self.regions.append(region)
        if region.state is _State.NONE:
            region.raws.append(token.raw)
        else:
            outputs.append((token, role))
        return outputs

    def _find_role(self, token, index, translate=None):
        state = self.regions[-1].state
        if state is _State.NONE:
            return Role.BLOCK
        role = self._rules.find_role(token, index, translate)
        if state is _State.NAMED:
            return Role.KEPT if role in OPAQUE else Role.BLOCK
        return role

    def _next_state(self, token, role, translate):
        """Returns the _State within the element of a start tag."""
        state = self.regions[-1].state
        is_kept = state is _State.NONE
        if translate is False or (not is_kept and role in OPAQUE):
            return _State.NONE
        if state is _State.NAMED or (is_kept and translate):
            return self._rules.find_state(token)
        return state


def _read_translate_attribute(token):
    """Returns True for translate="yes" and the like, False for "no"."""
    raw = token.raw.lower()
    # Most tags have none of these attributes.
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


def _translated_role(role):
    """Returns the Role with translate="yes": <code> becomes INLINE."""
    if role not in OPAQUE:
        return role
    return Role.BLOCK if role is Role.KEPT else Role.INLINE


class _HtmlRules:
    """Roles by the table of elements."""

    has_html = False

    def __init__(self, keep_elements):
        self._keep_elements = {name.lower() for name in keep_elements}

    def find_state(self, token):
        return _State.ALL

    def read_translate(self, token, index):
        translate = _read_translate_attribute(token)
        if translate is None and token.name in self._keep_elements:
            return False
        return translate

    def find_role(self, token, index, translate):
        if not token.name:
            return Role.HIDDEN
        role = _find_html_role(token)
        if role is Role.HIDDEN and token.name in RUBY_TEXT:
            # Its end tag is often missing; its content is one Token.
            return Role.INLINE
        if translate and token.name not in RAW_TEXT:
            return _translated_role(role)
        return role


class _XmlElement(typing.NamedTuple):
    """An XML element that is not yet closed; `index` is that of its Token."""

    token: Token
    index: int  # type: ignore[assignment]
    children: dict  # Names to the indices of their last start tags.


class _XmlSurvey:
    """What must be known of a whole XML document before it is translated.

    `tokens` are its Tokens, which are read once: they take much memory.

    Attributes:
        dialect: its Dialect.
        translate: dict of names to True or False, by global rules of ITS and
            `keep_elements`.
        finished: indices of the start tags of <source> and <target> of XLIFF
            that are translated already.
    """

    def __init__(self, tokens, keep_elements):
        self.dialect, self.finished = UNKNOWN, set()
        self.translate = dict.fromkeys(keep_elements, False)
        # The index of each Token's parent, and the indices of elements that
        # have text.
        self._parents, self._with_text = [], set()
        stack = [_XmlElement(Token("", ""), -1, {})]
        names = set()
        for index, token in enumerate(tokens):
            if token.kind == "end":
                self._read_xliff_state(stack.pop(), stack[-1])
            parent = stack[-1]
            self._parents.append(parent.index)
            if token.kind in ("start", "empty"):
                if not names:
                    self.dialect = find_dialect(token)
                names.add(local_name(token.name))
                parent.children[local_name(token.name)] = index
                self._read_its_rule(token)
            if token.kind == "start":
                stack.append(_XmlElement(token, index, {}))
            elif token.kind == "text" and not token.raw.isspace():
                self._with_text.add(parent.index)
        translated_names = self.dialect.translated_names
        if translated_names and not translated_names & names:
            # Another dialect, whose root has the same name.
            self.dialect = UNKNOWN

    def has_text_beside(self, index):
        """Whether the parent of a token has text besides elements."""
        return self._parents[index] in self._with_text

    def _read_xliff_state(self, element, parent):
        """Adds a <target> that is translated, and its <source>."""
        is_target = local_name(element.token.name) == "target"
        if not is_target or "target" not in self.dialect.translated_names:
            return
        attributes = parent.token.read_attributes()
        attributes |= element.token.read_attributes()
        has_content = element.index in self._with_text or element.children
        if has_content and attributes.get("state") not in _UNTRANSLATED:
            self.finished |= {element.index, parent.children.get("source")}

    def _read_its_rule(self, token):
        """Reads <its:translateRule selector="//term" translate="no"/>."""
        if local_name(token.name) == "translateRule":
            attributes = token.read_attributes()
            found = _SELECTOR.fullmatch(attributes.get("selector", ""))
            translate = _YES_OR_NO.get(attributes.get("translate"))
            if found and translate is not None:
                self.translate[found[1]] = translate


class _XmlRules:
    """Roles by the dialect, and by what has text besides elements."""

    def __init__(self, survey):
        self._survey, self._dialect = survey, survey.dialect
        self.has_html = self._dialect.has_html

    def find_state(self, token):
        names = self._dialect.translated_names
        is_all = not names or local_name(token.name) in names
        return _State.ALL if is_all else _State.NAMED

    def read_translate(self, token, index):
        translate = _read_translate_attribute(token)
        if translate is None and index in self._survey.finished:
            return False
        for name in (token.name, local_name(token.name)):
            if translate is None:
                translate = self._survey.translate.get(name)
        return translate

    def find_role(self, token, index, translate):
        is_inline = self._survey.has_text_beside(index)
        if token.kind in ("text", "comment"):
            return Role.HIDDEN
        if token.kind == "data":
            other = Role.HTML if self.has_html else Role.BLOCK
            return Role.WORDS if is_inline else other
        if self._dialect.is_html:
            role = _find_html_role(token)
            return _translated_role(role) if translate else role
        roles = self._dialect.roles
        role = roles.get(token.name) or roles.get(local_name(token.name))
        if translate or token.kind == "end":
            role = role and _translated_role(role)
        if role is Role.INLINE:
            return role
        if not is_inline:
            return Role.KEPT if role in OPAQUE else Role.BLOCK
        # Empty elements stand for something.
        other = Role.WORDS if token.kind == "empty" else Role.INLINE
        return role or other
