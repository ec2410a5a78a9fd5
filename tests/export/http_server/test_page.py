"""The page in a real browser, with a made-up model."""

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver import ActionChains, Keys  # noqa: E402
from selenium.webdriver.support.ui import (  # noqa: E402
    Select,
    WebDriverWait,
)

from export.translators.languages import Languages  # noqa: E402
from tests.export.attention_views import chromium  # noqa: E402
from tests.export.http_server.running import (  # noqa: E402
    MadeUpModel,
    request,
    run_server,
)

if not chromium.is_installed():
    pytest.skip(
        "chromium and chromedriver are not installed", allow_module_level=True
    )

HOSTILE = "<img/src=x> a&amp;b"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    found = chromium.start(tmp_path_factory.mktemp("profile"))
    yield found
    found.quit()


def text_of(driver, name):
    return driver.find_element("id", name).text


def wait_for(driver, name, text):
    WebDriverWait(driver, 60).until(lambda _: text_of(driver, name) == text)


def test_typing_choosing_and_pointing(driver):
    with run_server(MadeUpModel()) as url:
        chromium.requested_urls(driver)
        driver.get(url)
        wait_for(driver, "title", "Translator: English to French")
        box = driver.find_element("id", "source")
        assert driver.switch_to.active_element == box
        box.send_keys("one two three")
        wait_for(driver, "best", "THREE TWO ONE")
        assert text_of(driver, "words") == "one two three"
        choices = driver.find_elements("css selector", "#others button")
        assert [each.text for each in choices] == [
            "THREE TWO ONE",
            "THREE TWO ONE!",
        ]
        word = driver.find_elements("css selector", "#words span")[0]
        ActionChains(driver).move_to_element(word).perform()
        marked = driver.find_elements("css selector", ".aligned")
        assert sorted(each.text for each in marked) == ["ONE", "one"]
        (unsure,) = driver.find_elements("css selector", "#best .unsure")
        assert unsure.text == "THREE"
        assert unsure.get_attribute("title") == "probability 0.15"
        # The second choice differs from the first in the last word.
        other_words = driver.find_element("id", "other-words")
        words = driver.find_elements("css selector", "#best span")
        words[0].click()
        assert not other_words.is_displayed()
        words[2].click()
        (other,) = other_words.find_elements("css selector", "button")
        assert other.text == "ONE!"
        other.click()
        assert text_of(driver, "best") == "THREE TWO ONE!"
        assert not other_words.is_displayed()
        choices[0].click()
        # By the keyboard: to the text's first word, then to the second choice.
        choices[1].send_keys(Keys.ENTER)
        assert text_of(driver, "best") == "THREE TWO ONE!"
        assert choices[1].get_attribute("aria-pressed") == "true"
        box.clear()
        box.send_keys(HOSTILE)
        wait_for(driver, "best", "A&AMP;B <IMG/SRC=X>")
        box.clear()
        box.send_keys("One two. Three four.", Keys.ENTER, Keys.ENTER, "Five")
        wait_for(driver, "best", "TWO. ONE FOUR. THREE\n\nFIVE")
        assert text_of(driver, "words") == text_of(driver, "others") == ""
        box.clear()
        box.send_keys("fail")
        WebDriverWait(driver, 60).until(
            lambda _: text_of(driver, "state").startswith("Error: ")
        )
        driver.set_window_size(360, 700)
        width = "return document.documentElement.scrollWidth"
        assert driver.execute_script(width) <= 360
        driver.set_window_size(1280, 1000)
        addresses = chromium.requested_urls(driver)
        assert addresses
        assert all(each.startswith((url, "data:")) for each in addresses)


def test_languages_are_chosen(driver):
    languages = Languages(("de", "en", "fr"), 2, "en", "fr")
    with run_server(MadeUpModel(languages)) as url:
        driver.get(url)
        wait_for(driver, "title", "Translator: English to French")
        sides = {
            side: Select(driver.find_element("id", f"{side}-language"))
            for side in ("source", "target")
        }
        for side, first in ("source", "en"), ("target", "fr"):
            chosen = sides[side].first_selected_option
            assert chosen.get_attribute("value") == first
            values = [
                each.get_attribute("value") for each in sides[side].options
            ]
            assert set(values) == {"de", "en", "fr"}
        box = driver.find_element("id", "source")
        box.send_keys("one two")
        wait_for(driver, "best", "TWO >>EN<<>>FR<<ONE")
        # At once, without typing.
        sides["target"].select_by_value("de")
        wait_for(driver, "best", "TWO >>EN<<>>DE<<ONE")
        sides["source"].select_by_value("fr")
        wait_for(driver, "best", "TWO >>FR<<>>DE<<ONE")
        assert text_of(driver, "title") == "Translator: French to German"
        box.send_keys(Keys.ENTER, "three")
        wait_for(driver, "best", "TWO >>FR<<>>DE<<ONE\n>>FR<<>>DE<<THREE")


def test_several_models_and_a_swap(driver):
    pairs = {
        f"{source}_{target}": MadeUpModel(
            Languages(source=source, target=target)
        )
        for source, target in (("en", "fr"), ("fr", "en"), ("fr", "de"))
    }
    with run_server(pairs) as url:
        driver.get(url)
        wait_for(driver, "title", "Translator: English to French")
        driver.find_element("id", "source").send_keys("one two")
        wait_for(driver, "best", "TWO ONE")
        driver.find_element("id", "swap").click()
        wait_for(driver, "title", "Translator: French to English")
        wait_for(driver, "best", "ONE TWO")
        sides = [
            Select(driver.find_element("id", f"{side}-language"))
            for side in ("source", "target")
        ]
        sides[0].select_by_value("en")
        # By way of French, so without words and choices.
        sides[1].select_by_value("de")
        wait_for(driver, "title", "Translator: English to German")
        wait_for(driver, "best", "TWO ONE")
        assert text_of(driver, "others") == ""


def test_a_file_is_translated(driver, tmp_path):
    path = tmp_path / "words.json"
    path.write_text('{"x": "a b"}', "utf-8")
    with run_server(MadeUpModel()) as url:
        driver.get(url)
        wait_for(driver, "title", "Translator: English to French")
        driver.find_element("id", "file").send_keys(str(path))
        wait_for(driver, "download", "Download words.json")
        address = driver.find_element("id", "download").get_attribute("href")
        assert request(address) == (200, {"x": "B A"})
        assert not driver.find_element("id", "progress").is_displayed()
        path.write_text("{", "utf-8")
        driver.find_element("id", "file").send_keys(str(path))
        WebDriverWait(driver, 60).until(
            lambda _: text_of(driver, "state").startswith("Error: ")
        )


def test_a_model_without_alignments(driver):
    model = MadeUpModel()
    model.has_alignments = False
    with run_server(model) as url:
        driver.get(url)
        wait_for(driver, "title", "Translator: English to French")
        driver.find_element("id", "source").send_keys("one two")
        wait_for(driver, "best", "TWO ONE")
        _, choice = driver.find_elements("css selector", "#others button")
        choice.click()
        assert text_of(driver, "best") == "TWO ONE!"


def test_terms_are_given(driver):
    with run_server(MadeUpModel()) as url:
        driver.get(url)
        wait_for(driver, "title", "Translator: English to French")
        driver.find_element("id", "source").send_keys("one two")
        wait_for(driver, "best", "TWO ONE")
        driver.find_element("css selector", "summary").click()
        box = driver.find_element("id", "terms")
        box.send_keys("two = a=b", Keys.ENTER, "half")
        wait_for(driver, "best", "a=b ONE")


def test_tags_of_the_target_need_no_source(driver):
    languages = Languages(("de", "fr"), 1, "en", "fr")
    with run_server(MadeUpModel(languages)) as url:
        driver.get(url)
        driver.find_element("id", "source").send_keys("one")
        wait_for(driver, "best", ">>FR<<ONE")
        assert not driver.find_element("id", "source-language").is_displayed()
        assert driver.find_element("id", "target-language").is_displayed()
