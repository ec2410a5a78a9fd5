"""What the elements of HTML are in a text: a table of all of them.

From the HTML standard's index of elements, its rendering section (the default
value of CSS' `display`) and its section on obsolete elements.
"""

import enum
from collections.abc import Mapping


class Role(enum.Enum):
    """What an element is in the text around it."""

    INLINE = enum.auto()  # <b>, unknown elements: a part of the sentence.
    BLOCK = enum.auto()  # <p>: its tags end a sentence.
    # The content of elements with the following Roles is not translated.
    BREAK = enum.auto()  # <br>: a line break.
    WORDS = enum.auto()  # <code>: stands for words of the sentence.
    OBJECT = enum.auto()  # <img>: is seen, and separates words.
    HIDDEN = enum.auto()  # <wbr>: is not seen, or not in the line.
    FIRST_HALF = enum.auto()  # <bx/>: begins what a LAST_HALF, <ex/>, ends.
    LAST_HALF = enum.auto()
    KEPT = enum.auto()  # <pre>: ends a sentence.
    # HTML within XML, as text with entities or a CDATA section: translated.
    HTML = enum.auto()


def _names(text):
    return frozenset(text.split())


# Roles of elements whose content is not translated.
OPAQUE = tuple(
    role for role in Role if role not in (Role.INLINE, Role.BLOCK, Role.HTML)
)


def tabulate(names_of_roles: Mapping[Role, str]) -> dict[str, Role]:
    """Returns a dict of names to Roles for one of Roles to names."""
    return {
        name: role
        for role, names in names_of_roles.items()
        for name in names.split()
    }


# Readings above or beside the text of <ruby>, which have no tags here.
RUBY_TEXT = _names("rp rt rtc")
# Elements whose content has no tags.
RAW_TEXT = _names("iframe noembed noframes script style textarea xmp")
# Elements without an end tag.
NO_END_TAGS = _names(
    "area base basefont bgsound br col command embed frame hr image img input "
    "keygen link meta nextid param source spacer track wbr"
)
HTML = tabulate(
    {
        Role.INLINE: "a abbr acronym b bdi bdo big blink cite content data del "
        "dfn em font i ins map mark nobr output picture q rb ruby s shadow "
        "slot small span strike strong sub sup time tt u",
        # Besides blocks: parts of tables and lists, form fields and their
        # labels, and text that is shown elsewhere or only sometimes.
        Role.BLOCK: "address article aside blockquote body button caption "
        "center col colgroup datalist dd details dialog dir div dl dt "
        "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 "
        "h6 head header hgroup hr html input isindex keygen label legend li "
        "main marquee menu menuitem meter multicol nav noscript ol optgroup "
        "option p plaintext progress search section select selectedcontent "
        "summary table tbody td template tfoot th thead title tr ul",
        Role.BREAK: "br",
        # Besides HTML's: those of XLIFF, in pages made of it.
        Role.WORDS: "code kbd math ph samp var x",
        Role.OBJECT: "applet audio canvas embed fencedframe iframe image img "
        "object portal spacer svg video",
        Role.HIDDEN: "area base basefont bgsound command it link meta nextid "
        " noembed noframes param rp rt rtc script source style track "
        "wbr",
        Role.FIRST_HALF: "bpt bx",
        Role.LAST_HALF: "ept ex",
        Role.KEPT: "listing pre textarea xmp",
    }
)
