"""report.html and cases.html in a real browser, on the committed results."""

import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from attnsuite.report import write_report
from attnsuite.results import read

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed: report.html is not tried in a browser"),
]
RESULTS = Path(__file__).parents[2] / "results"
WIDTHS = ((390, 844), (1024, 768), (1440, 900))


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def machines():
    return read(RESULTS)


@pytest.fixture(scope="module")
def file(machines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("committed")
    for name in machines:
        (folder / name).mkdir()
    for table in (*RESULTS.glob("audit.csv"), *RESULTS.glob("*/stopwatch.csv")):
        shutil.copy(table, folder / table.relative_to(RESULTS))
    return write_report(folder, machines, draws=False)[-1]


@pytest.fixture
def opened(browser, file):
    """A function that opens a page in a tab of its own; `tab.trouble` has its errors and its requests."""
    tabs = []

    def open_page(address="", width=1440, height=900, **options):
        tab = browser.new_page(viewport={"width": width, "height": height}, **options)
        tab.set_default_timeout(30_000)
        tab.trouble = []
        tab.on("request", lambda of: None if of.url.startswith(file.parent.as_uri()) else tab.trouble.append(of.url))
        tab.on("pageerror", lambda error: tab.trouble.append(str(error)))
        tab.on("console", lambda message: tab.trouble.append(message.text))
        tab.goto(address if address.startswith("file:") else f"{file.as_uri()}{address}")
        tabs.append(tab)
        return tab

    yield open_page
    for tab in tabs:
        tab.close()


@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_the_recommendation_is_on_the_first_screen_and_nothing_scrolls_sideways(opened, width, height):
    tab = opened("", width, height)

    box = tab.locator(".recommendation p").first.bounding_box()

    assert box["y"] + box["height"] < height
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_no_violation(opened, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = opened("", width, color_scheme=scheme)

    found = axe.run(tab).response["violations"]

    assert [(each["id"], [node["html"][:80] for node in each["nodes"][:2]]) for each in found] == []


def test_a_choice_changes_the_table_and_stands_in_the_address(opened):
    tab = opened()
    tab.get_by_label("shape").select_option("decode/8k")

    assert parse_qs(tab.url.partition("#")[2])["workload"] == ["decode/8k"]
    assert "8192" in tab.locator("#recommendation .note").first.inner_text()
    assert tab.evaluate("document.activeElement.name") == "workload"
    again = opened("#" + tab.url.partition("#")[2])
    assert again.locator("#recommendation table").inner_text() == tab.locator("#recommendation table").inner_text()


def test_each_machine_can_be_chosen_and_shows_its_own(opened, machines):
    tab = opened()

    for name, recorded in machines.items():
        tab.get_by_label("machine").select_option(name)

        shown = tab.locator("section [data-machine]:visible").evaluate_all("all => all.map(of => of.dataset.machine)")
        assert set(shown) == {name}
        assert tab.locator("#recommendation table").count() == bool(recorded.measured)
    assert tab.trouble == []


def test_the_times_are_the_medians_of_the_rows(opened, machines):
    tab = opened()
    shown = dict(tab.locator("#recommendation tbody tr").evaluate_all(
        "rows => rows.map(row => [row.querySelector('th').innerText, row.querySelector('td').innerText])"
    ))  # fmt: skip
    name = tab.get_by_label("machine").input_value()
    seconds = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}

    rows = [
        of for _, of in machines[name].measured
        if (of.workload, of.contract, of.threads, of.direction, of.dtype)
        == ("ladder/16k", "attention", 1, "forward", "float32") and of.seconds
    ]  # fmt: skip

    assert len(rows) == len(shown) > 5
    for row in rows:
        value, unit = re.match(r"([\d.,]+) (\S+)", shown[row.implementation.partition("/")[2]]).groups()
        ordered = sorted(row.seconds)
        median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        assert float(value.replace(",", "")) * seconds[unit] == pytest.approx(median, rel=0.006)  # three digits


def test_a_series_that_stops_ends_with_a_cross(opened):
    tab = opened()

    names = tab.locator("#chart g").evaluate_all("all => all.map(of => [of.dataset.name, of.textContent])")

    assert any(text.startswith("×") for _, text in names)
    assert len({name for name, _ in names}) == len(names) > 5


def test_every_known_bug_can_be_linked_to(opened, file):
    anchors = re.findall(r'id="(bug-[^"]+)"', file.read_text())
    tab = opened()

    assert len(anchors) > 5
    for anchor in anchors:
        tab.evaluate(f"location.hash = '#{anchor}'")
        assert tab.locator(f"#{anchor}").is_visible(), anchor


def test_the_number_of_a_bug_leads_to_its_card(opened):
    tab = opened()
    link = tab.locator("#recommendation a").first
    bug, number = link.get_attribute("aria-label").removeprefix("known bug "), link.inner_text()
    link.click()

    assert f"Known bug {number}: {bug}" in tab.locator("article:target h3").inner_text()


def test_a_cell_of_the_matrix_opens_its_tests(opened, file):
    tab = opened()
    cell = tab.locator(".matrix:visible td a").first
    words, target = cell.inner_text(), cell.get_attribute("href")

    cases = opened(f"{file.parent.as_uri()}/{target}")

    passed, run = map(int, re.search(r"(\d+)/(\d+)", words).groups())
    status = cases.get_by_label("status")
    status.select_option("passed")
    assert f"{passed} passed" in cases.locator("#count").inner_text()
    status.select_option("failures")
    assert cases.locator("#count").inner_text().startswith(f"{run - passed} tests")


def test_the_keyboard_reaches_the_chooser_in_five_stops(opened):
    tab = opened()
    for _ in range(5):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.name === 'm'"):
            return
    pytest.fail("the machine's chooser is further than five tab stops away")


def test_the_page_is_useful_without_scripts(opened):
    tab = opened("", java_script_enabled=False)

    assert tab.locator("#recommendation table").count() >= 1
    assert tab.locator(".recommendation p").first.inner_text().startswith("Use ")
    assert tab.locator(".matrix table").first.is_visible()


def test_the_audits_have_four_numbers(opened):
    numbers = [text for text in opened().locator("#trust li").all_inner_texts() if re.match(r"[\d,]+ of [\d,]+ ", text)]

    assert len(numbers) == 4


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_no_choice_and_no_opened_part_scrolls_sideways(opened, machines, width):
    tab = opened("", width)

    for name in machines:
        tab.get_by_label("machine").select_option(name)
        tab.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, name


def test_lines_of_the_three_fastest_stand_out_and_a_pointer_picks_another(opened):
    tab = opened()
    standing_out = "all => all.filter(of => !of.classList.contains('dim')).map(of => of.dataset.name)"
    fastest = tab.locator("#recommendation tbody th").all_inner_texts()[:3]

    assert set(tab.locator("#chart g").evaluate_all(standing_out)) <= {*fastest}
    other = tab.locator("#chart g.dim").first
    name = other.get_attribute("data-name")
    other.dispatch_event("mouseenter")
    assert tab.locator("#chart g").evaluate_all(standing_out) == [name]


def test_a_choice_takes_less_than_a_third_of_a_second_of_the_processor(opened):
    tab = opened()
    devtools = tab.context.new_cdp_session(tab)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"]

    before = spent()
    tab.get_by_label("shape").select_option("decode/8k")
    assert 0 < spent() - before < 0.3


def test_print_leaves_out_what_is_only_for_a_screen(opened):
    tab = opened()
    tab.emulate_media(media="print")

    assert not tab.locator("form").is_visible()
    assert not tab.locator("nav").is_visible()
    assert tab.locator("#recommendation table").is_visible()


@pytest.mark.parametrize("hash_part", ["#m=nosuch", "#workload=<img src=x>", "#%", "#m=&workload="])
def test_an_address_with_nonsense_shows_the_default(opened, hash_part):
    tab = opened(hash_part)

    assert tab.locator("#recommendation table").count() == 1
    assert tab.trouble == []


def test_pages_are_small(file):
    assert file.stat().st_size < 700_000
