"""XLIFF 1.2 and 2.1, compared with what lxml reads."""

import pytest
from hypothesis import strategies as st
from lxml import etree

from tests.export.formats.round_trip import (
    COUNTS,
    on_documents,
    translate,
    words,
)

V1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en" datatype="plaintext"><body>
  <trans-unit id="1">
    <source>Hello <g id="1">big \u00e9</g> world<x id="2"/>.</source>
    <note>Note</note>
  </trans-unit>
  <trans-unit id="2" translate="no"><source>No</source></trans-unit>
  <group translate="no"><trans-unit id="3"><source>No</source></trans-unit>
  <trans-unit id="4" translate="yes"><source>Yes</source></trans-unit></group>
  <trans-unit id="5"><source>One. Two.</source><seg-source><mrk mid="0" \
mtype="seg">One.</mrk> <mrk mid="1" mtype="seg">Two <g id="9">b</g>.</mrk>\
</seg-source><target/></trans-unit>
  <trans-unit id="6"><source>Done</source><target state="final">Fait</target>\
<alt-trans><source>Old</source><target>Vieux</target></alt-trans></trans-unit>
  <trans-unit id="7"><source>New</source><target state="new">New</target>\
</trans-unit>
  <trans-unit id="8"><source>a &lt; b &amp; &lt;i>c&lt;/i></source>\
<target state="needs-translation" xml:lang="fr">x</target></trans-unit>
</body></file></xliff>
"""
V2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" \
srcLang="en"><file id="f"><unit id="1"><originalData><data id="d">&lt;br></data>
</originalData><segment id="s1" state="initial"><source>Hello <pc id="1" \
dataRefStart="d">big</pc> one<ph id="2"/>.</source></segment><ignorable>\
<source> </source></ignorable><segment id="s2"><source>Two.</source><target>\
Deux.</target></segment></unit><unit id="2" translate="no"><segment><source>No\
</source></segment></unit></file></xliff>
"""
STATE = 'state="needs-review-translation" state-qualifier="leveraged-mt"'


def test_version_1():
    found = translate(V1, "xliff", is_new=True, target_language="fr")
    assert found == (
        V1.replace('"plaintext">', '"plaintext" target-language="fr">')
        .replace(
            '<x id="2"/>.</source>',
            '<x id="2"/>.</source>\n    '
            f'<target {STATE}>hELLO <g id="1">BIG \u00c9</g> WORLD<x id="2"/>.'
            "</target>",
        )
        .replace(">Yes</source>", f">Yes</source><target {STATE}>yES</target>")
        .replace(
            "<target/>",
            f'<target {STATE}><mrk mid="0" mtype="seg">oNE.</mrk> <mrk mid="1" '
            'mtype="seg">tWO <g id="9">B</g>.</mrk></target>',
        )
        .replace('<target state="new">New', f"<target {STATE}>nEW")
        .replace(
            '<target state="needs-translation" xml:lang="fr">x',
            '<target state="needs-review-translation" xml:lang="fr" '
            'state-qualifier="leveraged-mt">A &lt; B &amp; &lt;i>C&lt;/i>',
        )
    )
    again = translate(found, "xliff")
    assert again == found


def test_version_2():
    found = translate(V2, "xliff", is_new=True, target_language="fr")
    assert found == (
        V2.replace('srcLang="en"', 'srcLang="en" trgLang="fr"')
        .replace('"initial"', '"translated"')
        .replace(
            '<ph id="2"/>.</source>',
            '<ph id="2"/>.</source><target>hELLO <pc id="1" dataRefStart="d">'
            'BIG</pc> ONE<ph id="2"/>.</target>',
        )
    )
    found = translate(V2, "xliff", is_new=True, all_units=True)
    assert "<target>tWO.</target>" in found


def test_prefixes_are_those_of_the_source():
    text = (
        V2.replace("<", "<x:")
        .replace("<x:/", "</x:")
        .replace("xmlns=", "xmlns:x=")
    )
    found = etree.fromstring(translate(text, "xliff", is_new=True))
    names = [each.tag for each in found.iter() if "target" in each.tag]
    assert names == ["{urn:oasis:names:tc:xliff:document:2.0}target"] * 2


inline = st.recursive(
    words,
    lambda each: st.lists(
        each | each.map(lambda e: ("g", e)) | st.just(("x", "")),
        min_size=1,
        max_size=4,
    ),
    max_leaves=6,
)


def build(parent, content, ids):
    """Appends str, lists and pairs of a name and content to an element."""
    if isinstance(content, str):
        last = parent[-1] if len(parent) else None
        if last is None:
            parent.text = (parent.text or "") + content + " "
        else:
            last.tail = (last.tail or "") + content + " "
    elif isinstance(content, tuple):
        name, inside = content
        element = etree.SubElement(parent, name, id=str(next(ids)))
        build(element, inside, ids) if inside else None
    else:
        for each in content:
            build(parent, each, ids)


@pytest.mark.parametrize("version", ["1.2", "2.1"])
@COUNTS
def test_targets_have_the_elements_of_sources(count, version):
    is_1 = version == "1.2"

    def check(contents):
        root = etree.Element("xliff", version=version)
        file = etree.SubElement(root, "file")
        for content in contents:
            unit = etree.SubElement(file, "trans-unit" if is_1 else "unit")
            unit = unit if is_1 else etree.SubElement(unit, "segment")
            build(etree.SubElement(unit, "source"), content, iter(range(99)))
        text = etree.tostring(root, encoding="unicode")
        found = etree.fromstring(translate(text, "xliff", is_new=True))
        sources, targets = ([*found.iter(n)] for n in ("source", "target"))
        assert len(targets) == len(sources) == len(contents)
        for source, before in zip(sources, root.iter("source")):
            assert etree.tostring(source) == etree.tostring(before)
        for source, target in zip(sources, targets):
            pairs = [*zip(source.iter(), target.iter(), strict=True)][1:]
            for one, other in pairs:
                assert (one.tag, one.attrib) == (other.tag, other.attrib)
            # An empty element within a word is put beside it.
            one, other = ("".join(e.itertext()) for e in (source, target))
            assert other.casefold().split() == one.casefold().split()

    # The scheme has "pc" in place of "g" in 2.1, which is treated alike.
    on_documents(st.lists(inline, max_size=3), count, check)
