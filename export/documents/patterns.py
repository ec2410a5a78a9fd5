"""Regular expressions: scripts, emoji, addresses and identifiers."""

# Within [...]: letters of scripts without spaces between sentences: Chinese,
# Japanese and others of East Asia.
CHINESE = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u312f\u31a0-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00016fe0-\U00018dff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Without spaces between words: also Thai, Lao, Tibetan, Burmese and Khmer.
NO_SPACES = f"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff{CHINESE}"
# Punctuation as wide as these letters, and spaces.
WIDE_MARKS = "\u3000-\u3003\u3008-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff65"
# Within [...]: marks that belong to the character before them.
MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06ed\u0730-\u074a\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a03"
    "\u0a3c-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82"
    "\u0bbe-\u0bcd\u0c00-\u0c04\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6"
    "\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0dca-\u0df3\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f18\u0f19\u0f35\u0f37"
    "\u0f39\u0f3e\u0f3f\u0f71-\u0f84\u0f86\u0f87\u0f8d-\u0fbc\u102b-\u103e"
    "\u1056-\u1059\u17b4-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d"
    "\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f\U0001f3fb-\U0001f3ff"
)
_PICTURE = "[\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
# One or more, with their modifiers; also keycaps, and signs shown as emoji.
EMOJI = (
    rf"(?:{_PICTURE}|[#*0-9]\ufe0f?\u20e3|[^\w\s]\ufe0f)"
    rf"(?:{_PICTURE}|[\ufe0f\u200d\u20e3\U000e0020-\U000e007f])*"
)
# Within [...]: what is invisible within words, such as soft hyphens; not
# U+200B, which in scripts without spaces stands between words.
INVISIBLE = "\u00ad\u2060-\u2064\u206a-\u206f\ufeff"
# Within [...]: the direction of text.
DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# A letter, mark or digit of a script with spaces.
LETTER = rf"(?:(?![{NO_SPACES}])[\w{MARKS}])"

_START = rf"(?:\b|(?<=[{NO_SPACES}]))"
# Within [^...]: white space, punctuation that is in no address, and letters of
# scripts without spaces.
_NOT_ADDRESS = rf"\s\u2000-\u206f\u3000-\u303f\uff01-\uff65{NO_SPACES}"
_NOT_MAIL = rf"{_NOT_ADDRESS}\x00-*,/:-@\[-^`{{-\xbf"
# Marks that may be within an address but not at its end.
_INNER = r".,;:!?'*|\xab\xbb\u060c\u061b\u061f\u06d4\u0964\u0965"
_NOT_URL = rf"<>\"`\\(){{}}\[\]{_NOT_ADDRESS}"
# Letters without spaces are a part of it after punctuation, brackets if they
# are closed, and those of footnotes not.
_URL_PART = (
    rf"[{_INNER}]*+(?:[^{_INNER}{_NOT_URL}]++"
    rf"|(?<=[/=?&#_.-])[{NO_SPACES}]++"
    r"|\((?:[^()\s<>\"]|\([^()\s<>\"]*+\))*+\)"
    r"|\{(?:[^{}\s<>\"]|\{[^{}\s<>\"]*+\})*+\}"
    r"|(?<=[/@])\[[\da-fA-F:.]++\]|\[[^\[\]\s<>\"]*+\](?=[\w/:=&%\[]))"
)
_URL_BEGIN = (
    rf"{_START}(?:[a-zA-Z][a-zA-Z\d+-]{{1,15}}+://|(?i:www\.)"
    rf"|(?:mailto|tel|sms|xmpp|sips?|urn|doi|magnet|geo):){_URL_PART}"
)
_MAIL_BEGIN = (
    rf"{_START}[^{_NOT_MAIL}]{{1,64}}+@[^+.{_NOT_MAIL}]{{1,63}}+"
    rf"\.[^+.{_NOT_MAIL}]{{1,63}}+"
)
# Where an address begins, found without reading all of it.
ADDRESS_BEGIN = f"{_URL_BEGIN}|{_MAIL_BEGIN}"
ADDRESS = (
    rf"{_URL_BEGIN}(?:{_URL_PART})*+"
    rf"|{_MAIL_BEGIN}(?:\.[^+.{_NOT_MAIL}]{{1,63}}+)*+"
)

# max_value, MAX_VALUE; not "E_xit", whose "_" marks a key.
SNAKE_CASE = r"(?:[a-z\d]{2,}+(?:_[a-z\d]{2,}+)++|[A-Z\d]{2,}+(?:_[A-Z\d]++)++)"
_DATE_PART = "(?:y+|Y+|M+|d+|D+|H+|h+|m+|s+)"
# A whole text, in ASCII, that is no word but a name or value of a program.
IDENTIFIER = "|".join(
    [
        # maxValue, MaxValue
        r"[a-z]++(?:[A-Z][a-z\d]*+)++|(?:[A-Z][a-z\d]++){2,}+",
        # menu.open, index.html, key=it, .menu
        r"[\w-]{2,}+(?:[.=][\w-]{2,}+)++|\.[a-z][\w-]++",
        # v1.2, AB-123, sha256:12ab
        r"[A-Za-z]++[-_.:]?\d[\w.:-]*+",
        # Numbers in hexadecimal, UUIDs.
        r"(?=[a-fA-F-]*+\d)[\da-fA-F]{8,}+(?:-[\da-fA-F]{4,}+)*+",
        # 2026-11-30T12:00:00Z, HH:mm, dd/MM/yyyy
        rf"\d{{4}}-\d\d-\d\dT\S++|{_DATE_PART}(?:[-/.:]{_DATE_PART})++",
        # en-US, zh_Hans, image/png
        r"[a-z]{2,3}[-_][A-Z][A-Za-z]{1,3}",
        r"(?:application|audio|font|image|model|text|video)/[a-z][\w.+-]++",
    ]
)
