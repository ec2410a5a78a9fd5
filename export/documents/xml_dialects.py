"""Tables of the dialects of XML that are known, such as XLIFF and DocBook."""

import typing

from export.documents.elements import HTML, Role, tabulate
from export.documents.scanner import Token


class Dialect(typing.NamedTuple):
    """The rules of a kind of XML documents.

    Attributes:
        roots: names of root elements.
        roles: Roles by name; most names are without prefixes. The
            Roles of other elements follow from the text beside them.
        namespace: beginning of the root's namespace, if it has one.
        translated_names: names of the only elements that are translated, such
            as "source"; empty for all.
        is_html: whether Roles are those of HTML, whatever is beside them.
        has_html: whether escaped tags in its text are those of HTML.
    """

    roots: frozenset[str]
    roles: dict[str, Role]
    namespace: str = ""
    translated_names: frozenset[str] = frozenset()
    is_html: bool = False
    has_html: bool = False


# For documents of other dialects; the Roles are also those of all below.
UNKNOWN = Dialect(
    roots=frozenset(),
    roles=tabulate(
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


def _dialect(roots, namespace="", roles=(), translated="", has_html=False):
    """Returns a Dialect; `roles` is a dict of Roles to names."""
    return Dialect(
        roots=frozenset(roots.split()),
        roles=UNKNOWN.roles | tabulate(dict(roles)),
        namespace=namespace,
        translated_names=frozenset(translated.split()),
        has_html=has_html,
    )


_DIALECTS = (
    # Of 1.2 and 2.x, whose segments `roles.py` finds.
    _dialect(
        "xliff",
        namespace="urn:oasis:names:tc:xliff:document:",
        roles={
            Role.INLINE: "g mrk pc",
            Role.HIDDEN: "cp",
            Role.FIRST_HALF: "sc sm",
            Role.LAST_HALF: "ec em",
            Role.KEPT: "alt-trans ignorable match matches",
        },
        translated="source target",
        has_html=True,
    ),
    _dialect(
        "bookmap concept dita glossentry glossgroup map reference task topic "
        "troubleshooting",
        roles={
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
    _dialect(
        "appendix article book chapter glossary part preface refentry sect1 "
        "section set",
        namespace="http://docbook.org/ns/docbook",
        roles={
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
    _dialect(
        "rss RDF",
        translated="description encoded subtitle summary title",
        has_html=True,
    ),
    _dialect(
        "feed entry",
        namespace="http://www.w3.org/2005/Atom",
        translated="content rights subtitle summary title",
        has_html=True,
    ),
    _dialect(
        "TEI TEI.2 teiCorpus",
        namespace="http://www.tei-c.org/ns/",
        roles={
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
    _dialect(
        "svg",
        namespace="http://www.w3.org/2000/svg",
        roles={Role.BLOCK: "desc svg title", Role.KEPT: "metadata"},
        translated="desc foreignObject text title",
    ),
    _dialect(
        "resources",
        # <g> is that of XLIFF, around what is not translated.
        roles={Role.WORDS: "g"},
        translated="plurals string string-array",
        has_html=True,
    ),
    Dialect(
        roots=frozenset(["html"]),
        namespace="http://www.w3.org/1999/xhtml",
        roles=HTML,
        is_html=True,
    ),
)


def local_name(name: str) -> str:
    """Returns a name without its prefix: "para" for "db:para"."""
    return name.rpartition(":")[2]


def find_dialect(root: Token) -> Dialect:
    """Returns the Dialect of a document; `root` is its first tag."""
    prefix = root.name.rpartition(":")[0]
    attribute = f"xmlns:{prefix}" if prefix else "xmlns"
    namespace = root.read_attributes().get(attribute.lower(), "")
    for dialect in _DIALECTS:
        fits = not namespace or namespace.startswith(dialect.namespace)
        if fits and local_name(root.name) in dialect.roots:
            return dialect
    return UNKNOWN
