"""The report in a browser: it loads alone, hovering shows values, tables sort, themes switch."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from mosaicgp.report import write_report
from report_models import fitted, table

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    X, y = table(128, 0)
    return path, write_report(fitted(X, y), path, *table(120, 1))


@pytest.fixture
def page(driver, written):
    """The report, loaded anew, with nothing yet in the logs."""
    driver.get_log("browser"), driver.get_log("performance")
    driver.get(written[0].as_uri())
    return driver


def hover(page, css):
    """What the tip says over the first mark of a kind."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    mark = page.find_element(By.CSS_SELECTOR, css)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(page).move_to_element(mark).perform()
    tip = page.find_element(By.ID, "tip")
    return tip.text if tip.is_displayed() else None


def test_it_loads_alone_and_without_complaint(page, written):
    assert page.get_log("browser") == []
    sent = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in sent
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked - {"data:,"} == {written[0].as_uri()}
    assert page.title == "Model of y <b>"
    assert page.execute_script("return document.querySelectorAll('svg.chart').length") >= 9
    # Nothing is wider than the window.
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_hovering_shows_values(page, written):
    mosaic = written[1].mosaic
    tile = next(t for t in mosaic.tiles if t.n)
    text = hover(page, "path.tile:not(.none)")
    assert text.startswith(f"block {tile.block}: RMSE {tile.rmse:.3g} over {tile.n} rows")
    assert "intervals hold" in hover(
        page, "svg[aria-label='Coverage by level'] .hit:nth-of-type(20)"
    )
    assert "PIT 0.00 to 0.05" in hover(page, "rect.area")
    assert hover(page, "h1") is None
    assert page.get_log("browser") == []


def test_tables_sort(page, written):
    from selenium.webdriver.common.by import By

    def column(k):
        script = """return [...document.querySelector("table.sortable").tBodies[0].rows]
                           .map(row => row.cells[arguments[0]].textContent)"""
        return page.execute_script(script, k)

    heads = page.find_elements(By.CSS_SELECTOR, "table.sortable:first-of-type thead th")
    inputs = written[1].inputs
    heads[0].find_element(By.TAG_NAME, "button").click()
    assert heads[0].get_attribute("aria-sort") == "ascending"
    assert sorted(column(0), key=str.lower) == sorted((i.name for i in inputs), key=str.lower)
    first = column(0)
    heads[0].find_element(By.TAG_NAME, "button").click()
    assert column(0) == first[::-1]
    heads[1].find_element(By.TAG_NAME, "button").click()
    assert heads[0].get_attribute("aria-sort") is None
    order = np.argsort([-i.relevance for i in inputs], kind="stable")
    assert column(0) == [inputs[k].name for k in order]


def test_light_and_dark(page):
    from selenium.webdriver.common.by import By

    def background():
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    seen = {}
    for theme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": theme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        seen[theme] = background()
    assert seen["light"] != seen["dark"]
    button = page.find_element(By.ID, "theme")
    button.click()
    assert background() == seen["light"]
    button.click()
    assert background() == seen["dark"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert background() == "rgb(255, 255, 255)"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_a_narrow_window_needs_no_scrolling_sideways(page):
    size = {"width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 380
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
