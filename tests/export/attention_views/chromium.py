"""A headless Chromium, with what it logged and asked for."""

import json
import shutil

from selenium import webdriver

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)


def _browser():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def is_installed():
    """Returns whether there are a browser and its driver."""
    return bool(_browser() and shutil.which("chromedriver"))


def start(profile):
    """Returns a webdriver; profile is an empty folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = _browser()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    found = webdriver.Chrome(options, service)
    # Away from the browser's own first page.
    found.get("about:blank")
    return found


def requested_urls(driver):
    """Returns the addresses that were asked for since the last call."""
    messages = [
        json.loads(entry["message"])["message"]
        for entry in driver.get_log("performance")
    ]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
