"""Makes the pictures of docs/images: `python -m docs.images.make_screenshots`.

Run in the repository's root, with the demo's model or another from English;
needs Chromium, its chromedriver, and requirements-dev.txt.
"""

import argparse
import io
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image
from selenium.webdriver.support.ui import WebDriverWait

from tests.export.attention_views import chromium

_IMAGES = pathlib.Path(__file__).parent
_ANIMAL = "The animal did not cross the street because it was too tired."
# Name of the picture, colour scheme, flags of export.attention.
_PAGES = (
    ("attention-light.png", "light", (f"--text={_ANIMAL}", "--kind=cross")),
    (
        "attention-dark.png",
        "dark",
        (f"--text={_ANIMAL}", "--kind=encoder", "--word=it"),
    ),
    ("attention-figure-4-light.png", "light", ("--figure=4",)),
    ("attention-figure-5-dark.png", "dark", ("--figure=5",)),
)
_WIDTH = 1120


def main():
    """Writes each picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="runs/demo", help="Model directory.")
    model = parser.parse_args().model
    _IMAGES.mkdir(exist_ok=True)
    svg = _IMAGES / "attention-figure-4.svg"
    _attention(model, "--figure=4", "--heads=all", "--word=its", f"--svg={svg}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        driver = chromium.start(folder / "profile")
        try:
            for name, scheme, flags in _PAGES:
                page = folder / f"{name}.html"
                _attention(model, *flags, f"--output={page}")
                picture = _picture(driver, page, scheme)
                # A palette makes the file a third as large.
                palette = picture.quantize(256, kmeans=3)
                palette.save(_IMAGES / name, optimize=True)
        finally:
            driver.quit()


def _attention(model, *flags):
    command = [sys.executable, "-m", "export.attention", f"--model={model}"]
    subprocess.run([*command, *flags], check=True)


def _picture(driver, page, scheme):
    """Returns an Image of the page above its explanations."""
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    driver.set_window_size(_WIDTH, 900)
    driver.get(page.as_uri())
    WebDriverWait(driver, 60).until(
        lambda driver: driver.find_elements("css selector", ".word")
    )
    end = driver.execute_script(
        "return document.querySelector('main').getBoundingClientRect().bottom"
    )
    size = {"width": _WIDTH, "height": int(end) + 24}
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {**size, "deviceScaleFactor": 1, "mobile": False},
    )
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png()))
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return picture.convert("RGB")


if __name__ == "__main__":
    main()
