"""A headless Chromium for tests of pages, and a JavaScript query for text with low contrast."""

import os
import shutil

import pytest

# Returns the elements whose text has a contrast below 4.5 to the background, as WCAG 2 defines contrast and level AA.
# The colour of SVG text is its fill.
LOW_CONTRAST = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    if (element.tagName === "SCRIPT") continue;
    const style = getComputedStyle(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    const pair = [light(parts(colour)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) found.push([element.outerHTML.slice(0, 80), ratio]);
  }
  return found;
}"""


@pytest.fixture(scope="session")
def browser():
    """A browser, started once. Without Chromium or playwright, the tests that use it are skipped with a message."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("there is no Chromium: install one, or name it in $CHROMIUM")
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        # Chromium refuses to start its sandbox as root, and tests in a container run as root.
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        started = playwright.chromium.launch(executable_path=program, args=options)
        make = started.new_context

        def patient(**options):
            context = make(**options)
            context.set_default_timeout(120_000)  # 30 s, the default, can be too short on busy cores
            return context

        started.new_context = patient
        yield started
        started.close()


@pytest.fixture
def new_page(browser):
    """A function that opens a page of the browser.

    The page's list `said` has console messages, errors and dialogs; `asked` has the URLs of all requests.
    """

    def open_(width=1000, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **options)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: page.said.append(dialog.message))
        page.on("request", lambda request: page.asked.append(request.url))
        return page

    yield open_
    for context in browser.contexts:
        context.close()
