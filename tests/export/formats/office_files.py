"""Makes and reads zip packages and office files."""

import io
import zipfile

from export.formats.files import translate_file
from tests.export.documents.made_up import RuleTranslator, invert_case

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
X = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
ODF_NAMES = " ".join(
    f'xmlns:{name}="{ODF}{name}:1.0"'
    for name in ("office", "text", "table", "style", "draw")
)
DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


# What programs need to find the document in the package.
CONTENT_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/'
    'content-types"><Default Extension="rels" ContentType="application/'
    'vnd.openxmlformats-package.relationships+xml"/><Override '
    'PartName="/word/document.xml" ContentType="application/vnd.'
    'openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
    "</Types>"
)
RELATIONSHIPS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
    'relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats'
    '.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
MANIFEST = (
    '<manifest:manifest xmlns:manifest="{0}manifest:1.0"><manifest:file-entry '
    'manifest:full-path="/" manifest:media-type="application/vnd.oasis.'
    'opendocument.{1}"/><manifest:file-entry manifest:full-path="content.xml" '
    'manifest:media-type="text/xml"/><manifest:file-entry '
    'manifest:full-path="Pictures/a.png" manifest:media-type="image/png"/>'
    "</manifest:manifest>"
).format


def zip_of(members, stored=("mimetype",)):
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            kind = zipfile.ZIP_STORED if name in stored else None
            archive.writestr(name, content, kind)
    return output.getvalue()


def unzip(content):
    """Returns (name, compression, bytes) of each member."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return [
            (info.filename, info.compress_type, archive.read(info))
            for info in archive.infolist()
        ]


def upper(content, name="docx", change=invert_case):
    return translate_file(RuleTranslator(change), content, name)


def part(content, name):
    return {each: data for each, _, data in unzip(content)}[name].decode()


def docx(body, **members):
    return zip_of(
        {
            "[Content_Types].xml": CONTENT_TYPES,
            "_rels/.rels": RELATIONSHIPS,
            "word/document.xml": f'{DECLARATION}<w:document xmlns:w="{W}" '
            f'xmlns:r="urn:r" xmlns:m="urn:m"><w:body>{body}</w:body>'
            "</w:document>",
            "word/vbaProject.bin": b"\0macro",
        }
        | members
    )


def odf(kind, body, styles=""):
    return zip_of(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{DECLARATION}<office:document-content {ODF_NAMES}>"
            f"<office:automatic-styles>{styles}</office:automatic-styles>"
            f"<office:body>{body}</office:body></office:document-content>",
            "Pictures/a.png": b"\x89PNG",
            "META-INF/manifest.xml": MANIFEST(ODF, kind),
        }
    )


def run(text, properties=""):
    properties = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    text = f'<w:t xml:space="preserve">{text}</w:t>' if text else ""
    return f"<w:r>{properties}{text}</w:r>"


def field(code, result):
    marks = [
        f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'
        for kind in ("begin", "separate", "end")
    ]
    code = f"<w:r><w:instrText>{code}</w:instrText></w:r>"
    return f"{marks[0]}{code}{marks[1]}{result}{marks[2]}"


FOOTNOTE = '<w:r><w:footnoteReference w:id="2"/></w:r>'
RTL = "<w:pPr><w:bidi/></w:pPr>"
MARK = '<w:bookmark{} w:id="1"/>'.format
LINK = '<w:hyperlink r:id="r1">{}</w:hyperlink>'.format
INSERTED = '<w:ins w:id="1">{}</w:ins>'.format
DELETED = '<w:del w:id="2"><w:r><w:delText> or never</w:delText></w:r></w:del>'
FORMULA = "<m:oMath><m:t>x</m:t></m:oMath>"
BOX = (
    '<w:r><w:drawing><docPr id="1" name="Picture" descr="{}"/><w:p>{}</w:p>'
    "</w:drawing></w:r>{}"
).format
CONTROL = (
    "<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>{}</w:sdtContent>"
    "</w:sdt>"
).format
