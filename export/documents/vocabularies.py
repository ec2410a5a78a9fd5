"""What is text in XML: a table of the vocabularies that are known."""

import typing

from export.documents.elements import HTML, Role, tabulate


class Vocabulary(typing.NamedTuple):
    """The rules of a kind of XML documents; most names are without prefixes.

    Attributes:
        roots: names of root elements.
        namespace: beginning of the root's namespace, if it has one.
        text: names of the only elements that are translated; empty for all.
        roles: dict of names to Roles. Those of other names, and where the
            parent has no text besides elements, are found by `roles`.
        is_html: whether roles do not depend on the parent.
        has_html: whether escaped tags in its text are those of HTML.
    """

    roots: frozenset
    namespace: str
    text: frozenset
    roles: dict
    is_html: bool = False
    has_html: bool = False


def _vocabulary(roots, namespace, roles, text="", has_html=False):
    roles = UNKNOWN.roles | tabulate(roles)
    names = frozenset(roots.split()), frozenset(text.split())
    return Vocabulary(names[0], namespace, names[1], roles, False, has_html)


UNKNOWN = Vocabulary(
    frozenset(),
    "",
    frozenset(),
    tabulate(
        {
            Role.BREAK: "br",
            Role.WORDS: "code kbd math ph samp var x",
            Role.HIDDEN: "it",
            Role.FIRST_HALF: "bpt bx",
            Role.LAST_HALF: "ept ex",
            Role.KEPT: "audio canvas iframe its:rules noembed noframes object "
            "pre script style svg textarea video xmp",
        }
    ),
)
_VOCABULARIES = (
    # Of 1.2 and 2.x; their segments are found by `roles`.
    _vocabulary(
        "xliff",
        "urn:oasis:names:tc:xliff:document:",
        {
            Role.INLINE: "g mrk pc",
            Role.HIDDEN: "cp",
            Role.FIRST_HALF: "sc sm",
            Role.LAST_HALF: "ec em",
            Role.KEPT: "alt-trans ignorable match matches",
        },
        text="source target",
        has_html=True,
    ),
    _vocabulary(
        "bookmap concept dita glossentry glossgroup map reference task topic "
        "troubleshooting",
        "",
        {
            Role.BLOCK: "dl fig fn indexterm lq note ol simpletable sl table "
            "ul",
            Role.WORDS: "apiname author cmdname codeph coords created "
            "critdates data data-about draft-comment filepath foreign keytext "
            "markupname msgnum numcharref option parameterentity parmname "
            "permissions prodname prognum required-cleanup resourceid revised "
            "shape synph systemoutput textentity unknown userinput varname "
            "vrm vrmlist xmlatt xmlelement xmlnsname xmlpi",
            Role.OBJECT: "image",
            Role.KEPT: "codeblock screen syntaxdiagram",
        },
    ),
    _vocabulary(
        "appendix article book chapter glossary part preface refentry sect1 "
        "section set",
        "http://docbook.org/ns/docbook",
        {
            Role.BLOCK: "blockquote caution example figure footnote important "
            "indexterm informalexample informalfigure informaltable "
            "itemizedlist mediaobject note orderedlist procedure simplelist "
            "table tip variablelist warning",
            Role.WORDS: "author authorgroup biblioid classname code command "
            "computeroutput constant copyright date editor email envar "
            "errorcode errorname errortype exceptionname filename function "
            "inlineequation interfacename isbn issn keycode keysym literal "
            "markup mathphrase methodname option parameter personname prompt "
            "property pubdate releaseinfo remark replaceable returnvalue "
            "revhistory sgmltag structfield structname symbol systemitem tag "
            "token type uri userinput varname",
            Role.OBJECT: "co graphic inlinegraphic inlinemediaobject",
            Role.HIDDEN: "anchor",
            Role.KEPT: "classsynopsis cmdsynopsis equation funcsynopsis "
            "informalequation methodsynopsis programlisting programlistingco "
            "screen screenco synopsis",
        },
    ),
    _vocabulary(
        "rss RDF",
        "",
        {},
        text="description encoded subtitle summary title",
        has_html=True,
    ),
    _vocabulary(
        "feed entry",
        "http://www.w3.org/2005/Atom",
        {},
        text="content rights subtitle summary title",
        has_html=True,
    ),
    _vocabulary(
        "TEI TEI.2 teiCorpus",
        "http://www.tei-c.org/ns/",
        {
            # <ex> is no half here.
            Role.INLINE: "bx ex",
            Role.BLOCK: "figure lg list note table",
            Role.WORDS: "att code formula gi ident idno val",
            Role.OBJECT: "cb gb graphic lb milestone pb",
            Role.HIDDEN: "anchor",
            Role.KEPT: "eg egXML encodingDesc profileDesc publicationStmt "
            "revisionDesc",
        },
    ),
    _vocabulary(
        "svg",
        "http://www.w3.org/2000/svg",
        {Role.BLOCK: "desc svg title", Role.KEPT: "metadata"},
        text="desc foreignObject text title",
    ),
    _vocabulary(
        "resources",
        "",
        # <g> is that of XLIFF, around what is not translated.
        {Role.WORDS: "g"},
        text="plurals string string-array",
        has_html=True,
    ),
    Vocabulary(
        frozenset(["html"]),
        "http://www.w3.org/1999/xhtml",
        frozenset(),
        HTML,
        is_html=True,
    ),
)


def local_name(name):
    """Returns a name without its prefix."""
    return name.rpartition(":")[2]


def find_vocabulary(root):
    """Returns the Vocabulary of a document; `root` is its first tag."""
    prefix = root.name.rpartition(":")[0]
    attribute = f"xmlns:{prefix}" if prefix else "xmlns"
    namespace = root.read_attributes().get(attribute.lower(), "")
    for vocabulary in _VOCABULARIES:
        is_other = vocabulary.namespace and not namespace.startswith(
            vocabulary.namespace
        )
        if local_name(root.name) in vocabulary.roots and not (
            namespace and is_other
        ):
            return vocabulary
    return UNKNOWN
