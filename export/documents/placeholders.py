"""What is a placeholder: addresses, and the syntaxes of templates.

The table of docs/documents.md has all of SYNTAXES and PAIRS with their
examples. The time of each pattern grows with the text's length alone.
"""

import re
import typing

from export.documents.patterns import LETTER


class Syntax(typing.NamedTuple):
    """A kind of placeholder.

    Attributes:
        name: of the languages or programs that have it.
        examples: of it.
        patterns: regular expressions without groups, which begin with a
            character: such are found faster.
        is_word: whether it stands for words, as most do, or as emoji for none.
    """

    name: str
    examples: tuple[str, ...]
    patterns: tuple[str, ...]
    is_word: bool = True


class Pair(typing.NamedTuple):
    """Two parts around text that is translated, as those of a link."""

    name: str
    examples: tuple[str, ...]
    openings: tuple[str, ...]
    closing: str


def _nest(opening, closing, depth):
    """Returns a pattern of brackets, with such brackets within them."""
    inside = rf"[^{opening}{closing}]"
    pattern = rf"{opening}{inside}*+{closing}"
    for _ in range(depth):
        pattern = rf"{opening}(?:{inside}++|{pattern})*+{closing}"
    return pattern


_BRACES, _PARENTHESES = _nest(r"\{", r"\}", 4), _nest(r"\(", r"\)", 2)
_FILE = r"\.?[\w+@~-]++(?:\.++[\w+@-]++)*+"
_FIELD = r"\s?[$/:@#]?[\w.\[\]'\"()-]*+(?:\s*+[!:|?][^{}]*+|\s)?\}"
# Flags, width, precision, length and conversion of printf.
_FORMAT = (
    r"[-+0#',]*+(?:[^\s\w%](?=\d))?(?:\d++|\*)?(?:\.(?:\d++|\*))?"
    r"(?:hh|ll|[hljztLq])?"
    r"(?:t[HIMSLNpzZsQBbhAaCYyjmdeRTrDFc]|[diouxXeEfFgGaAcCsSpnrbBTtvqm@])"
)
_OPTIONS = r"\*?(?:\[[^\[\]]*+\])*+"
_LATEX_TEXT = (
    r"\\(?:text(?:bf|it|tt|sc|sf|rm|sl|up|md|normal|color\{[^{}]*+\})?|emph"
    r"|underline|(?:sub)*(?:section|paragraph)|part|chapter|title|author"
    rf"|caption|footnote|mbox|enquote|href\{{[^{{}}]*+\}}){_OPTIONS}\{{"
)
# Up to a hundred, since each unfinished tag looks for all of its own.
_ATTRIBUTES = (
    r"(?:\s+[\w-]+=(?:\"[^\"\]]*+\"|'[^'\]]*+'|[^\s\"'\[\]<>]++)){%d,100}+"
)
_VARIABLE = r"[A-Za-z_][A-Za-z\d_]*+(?:->\w++|\[[^\[\]\s]*+\])*+"
_ACCOUNT = (
    rf"[A-Za-z_]{LETTER}*+(?:[./-]{LETTER}++)*+"
    rf"(?:@(?:{LETTER}|-)++(?:\.(?:{LETTER}|-)++)++)?"
)
_TAG = r"(?:\d++[A-Z])?[^\W\d_]\w*+"
_SERVER_TAGS = r"<%(?:(?!%>|<%).)*+%>", r"<\?(?:=|php\b)(?:(?!\?>|<\?).)*+\?>"
# Read before tags.
SERVER_TAG = re.compile("|".join(_SERVER_TAGS), re.DOTALL)

# The first one that matches is taken.
SYNTAXES = (
    Syntax(
        "addresses of the web, of mail and the like",
        (
            *("https://example.org/Paris_(Texas)", "www.example.org/?a="),
            *("ftp://me:pass@[::1]:21/x", "me@example.org"),
            "mailto:me@example.org",
        ),
        # They begin with any letter; see ADDRESS.
        (),
    ),
    # As do these; see SNAKE_CASE.
    Syntax("names of programs", ("max_value", "MAX_VALUE"), ()),
    Syntax(
        "paths of files",
        (r"C:\Users\me\a.txt", "/usr/share/doc", "~/notes.txt", "../a/b"),
        (
            # Those with drives begin with any letter, too.
            rf"/(?<!{LETTER}/)(?<![/.~<>)}}*-]/){_FILE}(?:/{_FILE})++/?",
            *(
                rf"{folder}/(?<!{LETTER}{folder}/)(?<![/.~]{folder}/)"
                rf"(?:{_FILE}/?)++"
                for folder in ("~", r"\.", r"\.\.")
            ),
        ),
    ),
    Syntax(
        "JSP, ERB, ASP, PHP",
        ("<%= name %>", "<% if x %>", "<?= $name ?>"),
        _SERVER_TAGS,
    ),
    Syntax(
        "Vue, Angular, Handlebars, Jinja, Liquid, Hugo, Blade",
        ("{{ name }}", "{{{ name }}}", "{% if x %}", "{{< figure >}}"),
        (
            r"\{\{(?:[^{}]++|" + _nest(r"\{", r"\}", 1) + r")*+\}\}",
            r"\{%(?:(?!%\}|\{%).)*+%\}",
            r"\{#(?:(?!#\}|\{#).)*+#\}",
            r"\{!!(?:(?!!!\}|\{!!).)*+!!\}",
        ),
    ),
    Syntax(
        "ICU messages, with the texts in them",
        ("{count, plural, one {# file} other {# files}}", "{when, date}"),
        (rf"\{{\s*+[\w.-]++\s*+,(?:[^{{}}]++|{_BRACES})*+\}}",),
    ),
    Syntax(
        "Python, .NET, Java, JavaScript, Ruby, Svelte",
        (
            *("{}", "{0}", "{name}", "{ name }", "{a.b[0]!r:>10}", "{0:N2}"),
            *("${name}", "#{name}", "%{name}", "%<price>.2f"),
        ),
        (
            *(rf"{sign}\{{{_FIELD}" for sign in ("", r"\$", "#", "%", "@")),
            *(rf"{sign}{_BRACES}" for sign in (r"\$", "#")),
            r"%<[\w.]++>[-+0# ]*+\d*+(?:\.\d++)?[a-zA-Z]?",
        ),
    ),
    Syntax(
        "Windows, Symfony",
        ("%APPDATA%", "%name%", "%%NAME%%"),
        (
            rf"%%(?<!\d%%)[A-Za-z_]\w*+%%(?!{LETTER})",
            rf"%(?<!\d%)[A-Za-z_][\w.-]{{2,}}+%(?!{LETTER})",
            r"%(?<!\d%)[A-Z_][A-Z\d_]++%",
        ),
    ),
    Syntax(
        "i18next, Vue I18n: other messages; constants",
        ("$t(key)", "@:common.ok", "__NAME__"),
        (
            r"\$t\([^()]*+\)",
            rf"@(?<!{LETTER}@)(?:\.\w++)?:\w++(?:\.\w++)*+",
            rf"_(?<!{LETTER}_)_[A-Z][A-Z\d]*+(?:_[A-Z\d]++)*+__(?!{LETTER})",
        ),
    ),
    Syntax(
        "C, Objective-C, PHP, Python, Go, Java: printf",
        ("%s", "%1$s", "%(name)s", "%-5.2f", "%lu", "%@", "%%"),
        (
            rf"%(?:\([\w.]++\)|\d++\$){_FORMAT}",
            # After a number a letter may belong to a word: "50 %discount".
            rf"%(?<!\d%)(?<!\d[ \u00a0]%){_FORMAT}",
            rf"%{_FORMAT}(?!{LETTER})",
            "%%",
        ),
    ),
    Syntax("Qt", ("%1", "%L1", "%n"), (r"%(?<!\d%)L?[1-9](?!\d)",)),
    Syntax(
        "LaTeX: formulas",
        ("$x^2$", r"\(a+b\)"),
        (
            rf"\$(?<!{LETTER}\$)(?<![$\\]\$)(?=[^\s$])(?:[A-Za-z]\w?'?"
            r"|[^$\\^_{}=<>+]{0,200}[\\^_{}=<>+][^$]{0,200})"
            rf"(?<!\s)\$(?!{LETTER}|\$)",
            r"\$\$[^$]++\$\$",
            r"\\\((?:(?!\\[()]).)*+\\\)",
            r"\\\[(?:(?!\\[\[\]]).)*+\\\]",
        ),
    ),
    Syntax(
        "LaTeX: commands without text",
        (r"\ref{fig:a}", r"\cite[p.~3]{knuth}", r"\LaTeX"),
        (
            rf"\\(?<!\\\\)(?<!(?={_LATEX_TEXT})\\)[A-Za-z]++{_OPTIONS}"
            rf"(?:{_BRACES})++",
            # Not the \n of strings.
            rf"\\(?<!{LETTER}\\)(?<![\\:.,;!?]\\)(?![nrt][A-Z])[A-Za-z]{{2,}}+"
            rf"(?!{LETTER}|[{{\[\\])",
        ),
    ),
    Syntax(
        "shell, PHP, Perl",
        ("$NAME", "$(date)", "$user->name"),
        (
            rf"\$(?<!{LETTER}\$)(?<!\$\$){_PARENTHESES}",
            rf"\$(?<!{LETTER}\$)(?<!\$\$){_VARIABLE}(?:\${_VARIABLE})*+"
            r"(?:\$(?![\w{(]))?",
        ),
    ),
    Syntax(
        "Markdown: code; wiki: pages",
        ("`x = 1`", "[[Page]]"),
        (
            r"`(?<!``)(?=[^\s`])[^`]*+(?<=\S)`(?!`)",
            r"``(?<!```)(?=[^`])(?:[^`]|`(?!`))++``(?!`)",
            r"\[\[[^\[\]|]++\]\]",
        ),
    ),
    Syntax(
        "WordPress: shortcodes",
        ('[gallery id="1"]', "[/gallery]"),
        (
            rf"\[/?[A-Za-z][\w-]*+{_ATTRIBUTES % 1}\s*+/?\]",
            r"\[/(?!(?:[bius]|quote|spoiler)\])[A-Za-z][\w-]*+\]",
        ),
        is_word=False,
    ),
    Syntax(
        "tags without content, as text",
        ("<0/>", '<x id="1"/>'),
        (rf"<[A-Za-z\d][\w.-]*+{_ATTRIBUTES % 0}\s*+/>",),
        is_word=False,
    ),
    Syntax(
        "names and tags of networks",
        ("@name", "@me@example.org", "#tag", "<@U024BE7>"),
        (
            *(
                rf"{sign}(?<!{LETTER}{sign})(?<![@\uff20.`/]{sign}){_ACCOUNT}"
                for sign in ("@", "\uff20")
            ),
            *(
                rf"{sign}(?<!{LETTER}{sign})(?<![&#\uff03/]{sign}){_TAG}"
                for sign in ("#", "\uff03")
            ),
            r"<(?:[@#]|!\w)[^<>\s]*+>",
        ),
    ),
    Syntax(
        "emoji by name",
        (":smile:", ":+1:"),
        (
            rf":(?<!{LETTER}:)(?<!::)(?:[A-Za-z][\w+-]*+|[+-]1|100):"
            rf"(?::[A-Za-z][\w+-]*+:)*+(?!{LETTER}|:)",
        ),
        is_word=False,
    ),
)
_TARGET = r"\((?:[^()\s]|\([^()\s]*+\))*+(?:\s\"[^\"]*+\"|\s'[^']*+')?\)"
PAIRS = (
    Pair(
        "wiki: pages with a text",
        ("[[Page|text]]",),
        (r"\[\[[^\[\]|]++\|",),
        r"\]\]",
    ),
    Pair(
        "tags, as text",
        ("<0>text</0>", '<b class="c">text</b>'),
        (rf"<[A-Za-z\d][\w.-]*+{_ATTRIBUTES % 0}\s*+>",),
        r"</[A-Za-z\d][\w.-]*+\s*+>",
    ),
    Pair(
        "forums: BBCode",
        ("[b]text[/b]",),
        (r"\[(?:[bius]|quote|spoiler)\]",),
        r"\[/(?:[bius]|quote|spoiler)\]",
    ),
    Pair(
        "Markdown: links, images",
        ("[text](https://a.b)", "![text](https://a.b/c.png)", "[text][1]"),
        (r"\[", r"!\["),
        rf"\](?:{_TARGET}|\[[^\[\]]*+\])?",
    ),
    Pair(
        "LaTeX: commands with text",
        (r"\textbf{text}", r"\section{text}"),
        (_LATEX_TEXT, r"\{"),
        r"\}",
    ),
)
