"""report.html in a real browser: what a user clicks, that no request leaves, that hostile names stay text."""

from __future__ import annotations

import shutil
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from builders import MACHINE, measured, outcome, without_time
from pages import TIMED, recorded

from attnsuite.records import ContractFacts, Facts
from attnsuite.report import write_report
from attnsuite.report.browser.history import Line, Moment

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed: report.html is not tried in a browser")

PATIENCE = 5_000  # ms for what a page does in a hundredth of it: a loaded machine may be slow
HOSTILE = '<img src=x onerror="document.title=1">'
FACTS = Facts(
    {"attention": ContractFacts(
        {"gqa": "fewer key heads"}, {"mask/a": (), "mask/b": ("gqa",), "scale/a": ()}, "matmul",
        why={"mask/b": "masks may be broadcast"},
    )},
    findings={"F-1": "the library reads past the end"}, workloads=TIMED.facts.workloads,
)  # fmt: skip
HERE = replace(TIMED, facts=FACTS)
ANOTHER = replace(HERE, machine=replace(MACHINE, name="another"))
SAMPLES = [0.05 * (1 + 0.001 * (place % 5)) for place in range(30)]


def rows(of_mask: str = "wrong", chunked: float = 0.05):
    """What is asked and timed on one machine: one failure, one known, one in hostile words."""
    return [
        outcome("mask/a"),
        outcome("mask/b", of_mask, detail="off by 2.5", error_ratio=7.5, diagnosis=("unscaled",)),
        outcome("scale/a", "raised", known="F-1", detail=HOSTILE),
        outcome("mask/a", name=f"attention/{HOSTILE}"),
        measured(),
        measured("chunked", seconds=[chunked / 0.05 * each for each in SAMPLES],
                 memory={"resident": 2.0**20, "retained": 0.0}),
        without_time("flex", "declined", "lacks cpu"),
        measured(workload="ladder/1k"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The page of two machines, one of which has history."""
    machines = {
        MACHINE.name: recorded(*rows(), runs=(HERE,)),
        "another": replace(recorded(*rows("passed", 0.03), runs=(ANOTHER,)), machine="another"),
    }
    moments = [Moment(f"2026-01-0{day}", f"c{day}", value) for day, value in enumerate((1, 1, 2, 2), 1)]
    past = [Line(MACHINE.name, "attention/chunked", "time", moments, [2], [("2026-01-02", "torch 2.13.0")])]
    return write_report(tmp_path_factory.mktemp("results"), machines, past).as_uri()


class Opened:
    """The page in a tab of its own; `requests` are what it asked for, `errors` what went wrong in it."""

    def __init__(self, tab, address: str) -> None:
        self.tab, self.requests, self.errors = tab, [], []
        tab.set_default_timeout(PATIENCE)
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda message: self.errors.append(message.text))
        tab.goto(address)
        tab.wait_for_selector("[data-ready]", state="attached")

    def choose(self, part: str, label: str, value: str) -> None:
        self.tab.locator(f"#{part}").get_by_label(label, exact=True).select_option(value)

    def column(self, part: str, place: int = 0) -> list[str]:
        """The words in a column of the first table that a part shows."""
        rows = self.tab.locator(f"#{part} table >> visible=true").first.locator("tbody tr:not(.unfolded)").all()
        return [row.locator("th, td").nth(place).inner_text().strip().removeprefix("▸ ") for row in rows]

    @property
    def chosen(self) -> dict[str, list[str]]:
        return parse_qs(self.tab.evaluate("location.hash").removeprefix("#"))


@pytest.fixture
def opened(browser, file):
    """Opens the page with a fragment, and sees to it that nothing left it and nothing went wrong."""
    contexts, pages = [], []

    def open_at(fragment: str = f"#m={MACHINE.name}", **options) -> Opened:
        contexts.append(browser.new_context(viewport={"width": 1200, "height": 900}, **options))
        pages.append(Opened(contexts[-1].new_page(), file + fragment))
        return pages[-1]

    yield open_at
    for page in pages:
        assert [url for url in page.requests if not url.startswith((file, "blob:"))] == []
        assert page.errors == []
    for context in contexts:
        context.close()


def test_a_cell_of_the_matrix_leads_to_its_cases_and_a_case_tells_all_that_is_known(opened):
    page = opened()

    page.tab.get_by_role("link", name="attention/loops, mask: ✗ 1/2").click()

    assert (page.chosen["i"], page.chosen["f"]) == (["attention/loops"], ["mask"])
    assert page.column("case-list") == ["mask/b", "mask/a"]
    page.tab.get_by_role("button", name="mask/b").click()
    told = page.tab.locator(".unfolded").inner_text()
    for words in (
        "masks may be broadcast", "✗ wrong", "7.5 times the bound", "off by 2.5", "unscaled", "commit abc123",
        "attnsuite check attention/loops --case mask/b --dtype float32",
    ):  # fmt: skip
        assert words in told


def test_a_command_is_copied(opened):
    page = opened()
    page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.tab.get_by_role("button", name="mask/b").click()

    page.tab.get_by_role("button", name="Copy").click()

    page.tab.get_by_text(" copied").wait_for()
    assert page.tab.evaluate("navigator.clipboard.readText()").startswith(
        "attnsuite check attention/loops --case mask/b"
    )


def test_filters_stand_in_the_address_and_the_address_gives_them_back(opened):
    page = opened()
    page.choose("cases", "Status", "failing")
    page.tab.locator("#search").fill("past the end")
    assert page.column("case-list") == []
    page.tab.locator("#search").fill("onerror")

    address = page.tab.url
    again = opened(address[address.index("#") :])

    assert page.column("case-list") == ["scale/a"]
    assert again.column("case-list") == ["scale/a"]
    assert again.tab.locator("#search").input_value() == "onerror"
    again.choose("cases", "Status", "")
    again.tab.go_back()
    assert again.chosen["s"] == ["failing"]


def test_cases_are_chosen_by_what_they_need(opened):
    page = opened()

    page.choose("cases", "Feature", "gqa")

    assert page.column("case-list") == ["mask/b"]


def test_any_column_sorts_and_once_more_turns_it_round(opened):
    page = opened()
    head = page.tab.locator("#case-list thead").get_by_role("button", name="case", exact=True)

    head.click()
    ascending = page.column("case-list")
    head.click()

    assert ascending == sorted(ascending)
    assert page.column("case-list") == ascending[::-1]
    assert page.tab.locator("#case-list th[aria-sort=descending]").inner_text().startswith("case")
    static = page.tab.locator("#overview .of:visible")
    static.get_by_role("button", name="failures").click()
    static.get_by_role("button", name="failures").click()
    assert static.locator("tbody tr").first.locator("td").nth(2).inner_text() == "✗ 1"


def test_a_memory_limit_changes_who_should_be_used(opened):
    page = opened()
    page.choose("choosing", "Shape", "vit/b16")
    assert "Fastest: chunked, 50.1 ms" in page.tab.locator("#choosing .advice").inner_text()
    assert page.column("ranked") == ["1", "2"]

    page.tab.get_by_label("Memory limit in MiB").fill("0.5")
    assert "Nothing that was timed here keeps that limit." in page.tab.locator("#choosing").inner_text()
    page.tab.get_by_label("Memory limit in MiB").fill("2")

    assert page.column("ranked", 1) == ["chunked"]
    assert "Over the limit or of unknown memory: matmul (3.94 MiB)" in page.tab.locator("#choosing").inner_text()
    page.tab.locator("#ranked").get_by_role("button", name="chunked").click()
    again = page.tab.locator("#ranked .unfolded").inner_text()
    assert "attnsuite bench attention/chunked --workload vit/b16 --dtype float32" in again
    page.tab.get_by_text("Not timed: 1").click()
    assert "flex: declined, lacks cpu" in page.tab.locator("#choosing").inner_text()


def test_times_are_dots_with_intervals_and_a_row_shows_its_samples_in_order(opened):
    page = opened()
    page.choose("times", "Shape", "vit/b16")
    assert page.tab.locator("#times figure .mark").count() == 2
    assert page.tab.locator("#times figure .reach").count() == 2
    assert "2× faster" in page.tab.locator("#times figure").inner_text().replace("1.99", "2").replace("2.00", "2")

    page.tab.locator("#times tbody").get_by_role("button", name="chunked").click()

    strip = page.tab.get_by_role("img", name="Samples of chunked in the order of rounds")
    heights = [float(dot.get_attribute("cy")) for dot in strip.locator("circle").all()]
    assert len(heights) == 30
    assert heights[0] > heights[1] > heights[4]
    assert heights[5] == heights[0]
    assert "attnsuite bench attention/chunked --workload vit/b16" in page.tab.locator("#times .unfolded").inner_text()


def test_two_machines_are_compared_and_only_certain_differences_stand_out(opened):
    page = opened()

    told = page.tab.locator("#comparison").inner_text()

    assert "4 answers of both: 1 differ" in told
    assert "1 speed-ups of both: 1 differ for certain" in told
    assert page.tab.locator("#comparison strong").inner_text() == "▼ lower"


def test_history_marks_where_another_level_begins_and_where_a_library_changed(opened):
    page = opened()

    assert page.tab.locator("#past .step").count() == 1
    assert "torch 2.13.0" in page.tab.locator("#past figure").inner_text()
    assert "2026-01-03: 1 to 2, between c2 and c3" in page.tab.locator("#past").inner_text()


def test_hostile_names_stay_text_wherever_they_are_shown(opened):
    page = opened()
    for button in page.tab.locator("#case-list .fold").all():
        button.click()

    assert page.tab.locator("img:not([role])").count() == 0
    assert page.tab.title() == "attnsuite: results"
    assert HOSTILE in page.tab.locator("#case-list").inner_text()


def test_a_script_that_is_put_into_the_page_is_not_obeyed(browser, file):
    context = browser.new_context()
    page = context.new_page()
    page.goto(file)

    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'document.title = 1';"
        "document.body.append(s); document.body.append(Object.assign(new Image(), {src: 'x.png'})); }"
    )

    assert page.title() == "attnsuite: results"
    context.close()


def test_the_page_is_used_with_keys_alone(opened):
    page = opened()

    page.tab.keyboard.press("/")
    assert page.tab.evaluate("document.activeElement.id") == "search"
    page.tab.keyboard.type("mask/b")
    page.tab.keyboard.press("Tab")
    for _ in range(12):
        if page.tab.evaluate("document.activeElement.className") == "fold":
            break
        page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Enter")

    assert "masks may be broadcast" in page.tab.locator(".unfolded").inner_text()


def test_without_scripts_the_numbers_are_there(browser, file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file)

    told = page.inner_text("main")

    for words in ("questions answered rightly", "✗ 1/2", "off by 2.5", "chunked", "With scripts allowed"):
        assert words in told
    context.close()


def test_paper_shows_no_controls_and_all_that_is_folded(opened):
    page = opened()

    page.tab.emulate_media(media="print")
    page.tab.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert not page.tab.locator("nav").is_visible()
    assert page.tab.locator("#ranking table").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_anybody_out(opened, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    page = opened(color_scheme=scheme)
    page.tab.get_by_role("button", name="mask/b").click()

    found = axe.Axe().run(page.tab).response["violations"]

    assert [(each["id"], each["nodes"][0]["html"][:120]) for each in found] == []
