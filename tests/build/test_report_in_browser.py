"""The report in headless Chromium; skipped, saying so, where there is none or playwright is not installed."""

import pytest
from chromium import LOW_CONTRAST

# Asked for first, so that no report is made where there is none.
pytestmark = pytest.mark.usefixtures("browser")


@pytest.fixture
def opened(browser, small_report):
    """Open the report as asked; whatever it says on the console, fails at or asks for is in the lists."""
    contexts = []

    def open_(width=1000, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("requestfailed", lambda request: page.said.append(request.url))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(small_report.page.as_uri(), wait_until="networkidle")
        return page

    yield open_
    for context in contexts:
        context.close()


def column(table, number):
    return table.locator(f"tbody td:nth-child({number})").all_inner_texts()


def test_it_loads_in_silence_and_asks_for_nothing(opened, small_report):
    page = opened()
    page.locator("th button").first.click()
    assert not page.said
    assert [url for url in page.asked if not url.startswith("data:")] == [small_report.page.as_uri()]
    assert page.title() == "fashion-infer report"


def test_every_image_is_seen_and_has_alt_text(opened):
    page = opened()
    images = page.locator("img").all()
    assert len(images) == 5
    for image in images:
        assert len(image.get_attribute("alt")) > 20
        assert image.evaluate("image => image.complete && image.naturalWidth") > 100


def test_tables_sort_by_numbers_and_by_words(opened):
    page = opened()
    table = page.locator("#op-times table").first
    headers = table.locator("th")
    before = column(table, 4)
    headers.nth(3).locator("button").click()
    assert column(table, 4) == sorted(before, key=float)
    assert headers.nth(3).get_attribute("aria-sort") == "ascending"
    headers.nth(3).locator("button").click()
    assert column(table, 4) == sorted(before, key=float, reverse=True)
    assert headers.nth(3).get_attribute("aria-sort") == "descending"
    headers.nth(0).locator("button").click()
    assert column(table, 1) == sorted(column(table, 1))
    assert [header.get_attribute("aria-sort") for header in headers.all()] == ["ascending", *["none"] * 6]


def test_empty_cells_stay_at_the_end(opened):
    page = opened()
    table = page.locator("#ladder table").first
    button = table.locator("th button").first
    button.click()
    steps = column(table, 1)
    numbers = [step for step in steps if step]
    assert numbers == [str(step) for step in range(1, len(numbers) + 1)] and steps[: len(numbers)] == numbers
    button.click()
    steps = column(table, 1)
    assert steps[: len(numbers)] == numbers[::-1] and not any(steps[len(numbers) :])


def test_tables_sort_from_the_keyboard(opened):
    page = opened()
    table = page.locator("#op-times table").first
    button = table.locator("th button").nth(3)
    button.focus()
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    page.keyboard.press("Enter")
    assert column(table, 4) == sorted(column(table, 4), key=float)
    page.keyboard.press("Space")
    assert column(table, 4) == sorted(column(table, 4), key=float, reverse=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_sideways(opened, scheme):
    page = opened(360, scheme, device_scale_factor=2, is_mobile=True, has_touch=True)
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    wide = page.locator("#ladder .wide").last
    assert wide.evaluate("box => box.scrollWidth > box.clientWidth")  # it scrolls in its own box instead


@pytest.mark.parametrize("scheme, low, high", [("light", 200, 255), ("dark", 0, 60)])
def test_text_is_readable_in_both_schemes(opened, scheme, low, high):
    page = opened(scheme=scheme)
    back = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert all(low <= part <= high for part in back)
    assert page.evaluate(LOW_CONTRAST) == []


def test_it_reads_without_its_script(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("#correctness td").first.is_visible() and not page.said
