"""The page in a real browser, beside weights computed one by one."""

import numpy as np
import pytest

from export.attention_views.rendering import attention_html
from export.attention_views.view import AttentionView
from export.attention_views.word_attention import SentenceAttention
from tests.export.attention_views import attended

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver import ActionChains, Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from tests.export.attention_views import chromium  # noqa: E402
from tests.export.attention_views.page_user import (
    Page,
    check_cells,
    check_lines,
)

if not chromium.is_installed():
    pytest.skip(
        "chromium and chromedriver are not installed", allow_module_level=True
    )

TEXT = "The animal did not cross the street because it was too tired."
TRANSLATION = "Das Tier überquerte die Straße nicht, weil es müde war."
ROWS, COLUMNS = [[*text.split(), "</s>"] for text in (TRANSLATION, TEXT)]
HOSTILE = (
    "<script>document.title='run'</script> </script><img/src=x> "
    "<b>&amp;\"quotes'onclick=x </textarea><!-- {{data}} "
    "\U0001f600\U0001f469\u200d\U0001f680 \u05e9\u05dc\u05d5\u05dd! "
    "\u0645\u0631\u062d\u0628\u0627 \\u003c"
)
TEXTS = {"about": "tiny: 3 layers", "translation_term": "Given", "note": ""}
FIRST = AttentionView("cross", 1, (0, 1, 2, 3))


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """One session for the module."""
    found = chromium.start(tmp_path_factory.mktemp("profile"))
    yield found
    found.quit()


@pytest.fixture
def visit(driver, tmp_path):
    """Opens the page of some maps; nothing may be logged or requested."""

    def open_page(maps, view=FIRST, views=()):
        page = tmp_path / "page.html"
        html = attention_html(SentenceAttention(maps), view, TEXTS, views)
        page.write_text(html, encoding="utf-8")
        chromium.requested_urls(driver)
        driver.get(page.as_uri())
        WebDriverWait(driver, 60).until(
            lambda driver: driver.find_elements("css selector", ".word")
        )
        return Page(driver)

    yield open_page
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert driver.get_log("browser") == []
    addresses = chromium.requested_urls(driver)
    assert addresses[0].startswith("file:")
    assert not any(each.startswith(("http", "ws")) for each in addresses)
    assert {each for each in addresses if each.startswith("file:")} == {
        (tmp_path / "page.html").as_uri()
    }


@pytest.fixture(scope="module")
def maps():
    return attended.maps(TEXT, TRANSLATION)


@pytest.fixture(scope="module")
def weights(maps):
    """Cross-attention between words."""
    return attended.by_words(maps, "cross")


def test_it_shows_every_word_and_a_line_for_every_weight(visit, maps, weights):
    page = visit(maps)
    assert page.texts("#from .word") == ROWS
    assert page.texts("#to .word") == COLUMNS
    assert page.texts("#source, #translation") == [TEXT, TRANSLATION]
    check_lines(page, weights[1])
    labels = page.texts("#matrix text")
    assert labels == [f"\u2068{word}\u2069" for word in ROWS + COLUMNS]
    # For screen readers.
    for button in page.all("button, input"):
        assert button.accessible_name
    page.point("from", 1)
    best = COLUMNS[int(np.argmax(weights[1].mean(axis=0)[1]))]
    assert page.text("[role='status']").startswith(
        f"\u201cTier\u201d looks most at \u201c{best}\u201d"
    )
    page.choose("units", "pieces")
    assert page.texts("#from .word") == list(maps.target_tokens)
    assert page.texts("#to .word") == list(maps.source_tokens)
    check_lines(page, maps.cross[1])
    page.choose("kinds", "decoder")
    assert page.texts("#to .word") == list(maps.target_inputs)


def test_it_shows_the_lines_of_what_is_pointed_at(visit, maps, weights):
    page, weights = visit(maps), weights[1]
    page.point("from", 3)
    check_lines(page, weights, row=3)
    page.point("to", 7)
    check_lines(page, weights, column=7)
    best = np.argmax(weights[:, :, 7], axis=1)
    heads = page.all("#word-table tbody tr")
    names = [head.find_element("css selector", "bdi").text for head in heads]
    assert names == [ROWS[row] for row in best]
    page.driver.execute_script("window.scrollTo(0, 0)")
    [title] = page.all("h1")
    ActionChains(page.driver).move_to_element(title).perform()
    check_lines(page, weights)


def test_kind_layer_and_heads_change_the_picture(visit, maps):
    page = visit(maps)
    for kind in ("encoder", "decoder", "cross"):
        page.choose("kinds", kind)
        page.choose("layers", 1)
        weights = attended.by_words(maps, kind)
        check_lines(page, weights[1])
        page.choose("layers", 2)
        check_lines(page, weights[2])
    page.head(1).click()
    check_lines(page, weights[2], {0, 2, 3})
    check_cells(page, weights[2][[0, 2, 3]])
    page.all("#heads .plain")[1].click()
    assert page.lines() == {}
    check_cells(page, np.zeros_like(weights[2]))
    page.all("#heads .plain")[0].click()
    check_lines(page, weights[2])


def test_encoder_and_decoder_may_differ_in_layers(visit):
    maps = attended.maps(TEXT, TRANSLATION, layers=4, decoder_layers=2)
    page = visit(maps)
    page.choose("kinds", "encoder")
    page.choose("layers", 3)
    check_lines(page, attended.by_words(maps, "encoder")[3])
    page.choose("kinds", "decoder")
    check_lines(page, attended.by_words(maps, "decoder")[1])
    shown = [each.text for each in page.all("#layers .choice")]
    assert [each for each in shown if each] == ["1", "2"]


def test_it_works_with_keys_alone(visit, maps, weights):
    page = visit(maps)
    # Past kinds, layers, units, four heads and two buttons.
    page.press(*[Keys.TAB] * 10)
    assert page.focused() == ("from", 0)
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert page.focused() == ("from", 2)
    check_lines(page, weights[1], row=2)
    page.press(Keys.ARROW_RIGHT)
    assert page.focused() == ("to", 2)
    check_lines(page, weights[1], column=2)
    page.press(Keys.ARROW_LEFT, Keys.HOME, Keys.ENTER, Keys.TAB, Keys.TAB)
    check_lines(page, weights[1], row=0)
    page.press(Keys.ESCAPE)
    check_lines(page, weights[1])
    page.driver.execute_script(
        "document.querySelector('#layers input:checked').focus()"
    )
    page.press(Keys.ARROW_LEFT)
    check_lines(page, weights[0])
    page.press(Keys.TAB, Keys.TAB, Keys.SPACE)
    check_lines(page, weights[0], {1, 2, 3})


def test_hostile_text_stays_text(visit):
    maps = attended.maps(HOSTILE, HOSTILE[::-1])
    page = visit(maps)
    assert page.driver.title == "Attention"
    assert page.texts("#source") == [HOSTILE]
    assert page.texts("#to .word") == [*HOSTILE.split(), "</s>"]
    assert page.texts("#from .word") == [*HOSTILE[::-1].split(), "</s>"]
    assert page.all("img, b, textarea") == []
    assert len(page.all("script")) == 2
    words = page.all("#to .word")
    place = HOSTILE.split().index("\u05e9\u05dc\u05d5\u05dd!")
    direction = "return getComputedStyle(arguments[0]).direction"
    assert page.driver.execute_script(direction, words[place]) == "rtl"
    assert page.driver.execute_script(direction, words[0]) == "ltr"


def test_sixteen_heads_and_the_views_of_a_figure(visit):
    maps = attended.maps(TEXT, TRANSLATION, layers=3, heads=16)
    views = [
        ("Top", AttentionView("encoder", 0, tuple(range(16)))),
        ("Bottom", AttentionView("encoder", 2, (1, 3), word=4)),
    ]
    page = visit(maps, views[0][1], views)
    weights = attended.by_words(maps, "encoder")
    check_lines(page, weights[0])
    top, bottom = page.all("#views button")
    bottom.click()
    check_lines(page, weights[2], {1, 3}, row=4)
    top.click()
    check_lines(page, weights[0])
