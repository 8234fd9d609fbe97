"""report.html in a real browser: what a user clicks, that no request leaves, that hostile names stay text."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from builders import MACHINE, measured, outcome, without_time
from msgspec import structs
from pages import TIMED, recorded

from attnsuite.model import ContractFacts, Facts, WorkloadFacts
from attnsuite.report import past, write_report
from attnsuite.report.browser.history import Line, Moment
from attnsuite.results.store import read_outcomes

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed: report.html is not tried in a browser")

PATIENCE = 30_000  # ms for what a page does in a hundredth of it: a loaded machine may be slow
HOSTILE = '<img src=x onerror="document.title=1">'
FACTS = Facts(
    {"attention": ContractFacts(
        {"gqa": "fewer key heads"}, {"mask/a": (), "mask/b": ("gqa",), "scale/a": ()}, "matmul",
        why={"mask/b": "masks may be broadcast"},
    )},
    findings={"F-1": "the library reads past the end"}, workloads=TIMED.facts.workloads,
)  # fmt: skip
HERE = structs.replace(TIMED, facts=FACTS)
ANOTHER = structs.replace(HERE, machine=structs.replace(MACHINE, name="another"))
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
    moments = [
        Moment(f"2026-01-0{day}", f"c{day}", value, f"{value}.00 s") for day, value in enumerate((1, 1, 2, 2), 1)
    ]
    lines = [Line(MACHINE.name, "attention/chunked", "time", moments, [2], [("2026-01-02", "torch 2.13.0")])]
    return write_report(tmp_path_factory.mktemp("results"), machines, lines).as_uri()


LONG_CASE = "combined/" + "+".join(f"axis_{place}_of_the_combination" for place in range(8))


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory):
    """The page of a machine with a long name, many families of cases, and known failures with many messages."""
    machine = structs.replace(
        MACHINE, processor="Intel(R) Xeon(R) Processor, family 6, model 207 of a long name", accelerators=()
    )
    names = [f"attention/torch_sdpa.{name}" for name in ("automatic", "flash", "efficient")]
    cases = [f"family_{place}/plain" for place in range(40)]
    known = [
        outcome(f"{LONG_CASE}_{place}", "wrong", name, known=f"F-{place % 2}", detail="off by " + "a" * place)
        for name in names for place in range(12)
    ]  # fmt: skip
    words = {"F-0": "the scale is applied twice, " * 5, "F-1": "the mask is read past its end, " * 5}
    run = structs.replace(HERE, machine=machine, facts=structs.replace(FACTS, findings=words))
    shape = WorkloadFacts("vit", "batch 1, 12 heads, length 197, width 64, " * 3, "a layer", 197)
    run = structs.replace(
        run, facts=structs.replace(run.facts, workloads={"attention": {"vit/b16": shape, "vit/b32": shape}})
    )
    rows = [*known, *(outcome(case, name=name) for name in names for case in cases)]
    rows += [measured(name, workload) for name in ("matmul", *names) for workload in ("vit/b16", "vit/b32")]
    machines = {
        MACHINE.name: recorded(*rows, runs=(run,)),
        "another": replace(recorded(*rows, runs=(run,)), machine="another"),
    }
    return write_report(tmp_path_factory.mktemp("wide"), machines).as_uri()


@pytest.fixture(scope="module")
def committed_file(tmp_path_factory):
    """The page of the results that are committed, as the code of today writes it."""
    results = Path(__file__).parents[2] / "results"
    return write_report(tmp_path_factory.mktemp("committed"), read_outcomes(results), past(results)).as_uri()


class Opened:
    """The page in a tab of its own; `requests` are what it asked for, `errors` what went wrong in it."""

    def __init__(self, tab, address: str) -> None:
        self.tab, self.requests, self.errors = tab, [], []
        self.file = address.partition("#")[0]
        tab.set_default_timeout(PATIENCE)
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda message: self.errors.append(message.text))
        tab.goto(address)
        tab.wait_for_selector("[data-ready]", state="attached")

    def write(self, words: str, label: str = "Search") -> None:
        """Write into a field and confirm it, so that it counts at once."""
        self.tab.get_by_label(label, exact=True).fill(words)
        self.tab.keyboard.press("Enter")

    def choose(self, part: str, label: str, value: str) -> None:
        self.tab.locator(f"#{part}").get_by_label(label, exact=True).select_option(value)

    def column(self, part: str, place: int = 0) -> list[str]:
        """The words in a column of the first table that a part shows."""
        rows = self.tab.locator(f"#{part} table >> visible=true").first.locator("tbody tr:not(.unfolded)").all()
        return [row.locator("th, td").nth(place).inner_text().strip().removeprefix("▸ ") for row in rows]

    def counted(self, do) -> dict[str, int]:
        """How often the page parsed, read and stored what is chosen while `do` was done."""
        before = self.tab.evaluate("({...counts})")
        do()
        return {name: count - before[name] for name, count in self.tab.evaluate("({...counts})").items()}

    def measure(self, selector: str, what: str) -> list[float]:
        """A measure of each visible element."""
        return [each.evaluate(f"each => {what}") for each in self.tab.locator(f"{selector} >> visible=true").all()]

    @property
    def chosen(self) -> dict[str, list[str]]:
        return parse_qs(self.tab.evaluate("location.hash").removeprefix("#"))


COUNTING = """
    const counts = window.counts = { parsed: 0, read: 0, stored: 0 };
    window.URLSearchParams = class extends URLSearchParams { constructor(...of) { super(...of); counts.parsed += 1; } };
    const get = Map.prototype.get, replace = history.replaceState;
    Map.prototype.get = function (name) { counts.read += 1; return get.call(this, name); };
    history.replaceState = function (...of) { counts.stored += 1; return replace.apply(this, of); };
"""
"""A script that counts how often the address is parsed, a value is read from a map, and a typed value is stored."""


@pytest.fixture
def opened(browser, file):
    """Opens a page with a fragment, and sees to it that nothing left it and nothing went wrong."""
    contexts, pages = [], []

    def open_at(fragment: str = f"#m={MACHINE.name}", at: str = file, width: int = 1200, **options) -> Opened:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **options))
        contexts[-1].add_init_script(COUNTING)
        pages.append(Opened(contexts[-1].new_page(), at + fragment))
        return pages[-1]

    yield open_at
    for page in pages:
        assert [url for url in page.requests if not url.startswith((page.file, "blob:"))] == []
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
        "masks may be broadcast", "✗ wrong", "7.50 times the bound", "off by 2.5", "unscaled", "commit abc123",
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
    page.write("past the end")
    assert page.column("case-list") == []
    page.write("onerror")

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

    page.write("0.5", "Memory limit in MiB")
    assert "Nothing that was timed here keeps that limit." in page.tab.locator("#choosing").inner_text()
    page.write("2", "Memory limit in MiB")

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
    assert "2.00× faster" in page.tab.locator("#times figure").inner_text()

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
    assert "2026-01-03: 1.00 s to 2.00 s, between c2 and c3" in page.tab.locator("#past").inner_text()


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


def test_a_choice_is_evaluated_once_and_redraws_what_depends_on_it(opened):
    page = opened()
    mark = "document.querySelectorAll('main table').forEach((table) => { table.marked = true; })"
    drawn = "(id) => !document.querySelector(`#${id} table`).marked"
    parts = ("ranked", "timed", "compared", "case-list", "overview", "conformance")

    page.tab.evaluate(mark)
    search = page.counted(lambda: page.write("mask"))
    after_search = [part for part in parts if page.tab.evaluate(drawn, part)]
    page.tab.evaluate(mark)
    shape = page.counted(lambda: page.choose("times", "Shape", "vit/b16"))
    after_shape = [part for part in parts if page.tab.evaluate(drawn, part)]

    assert after_search == ["case-list"]
    assert after_shape == ["ranked", "timed"]
    assert max(search["parsed"], shape["parsed"]) <= 4
    assert max(search["read"], shape["read"]) < 1000


def test_keys_typed_without_a_pause_count_once(opened):
    page = opened()

    counted = page.counted(lambda: page.tab.evaluate("""() => {
        const box = document.getElementById("search");
        box.focus();
        for (const letter of "mask/b") {
            box.value += letter;
            box.dispatchEvent(new Event("input"));
        }
        box.blur();
        box.dispatchEvent(new Event("change"));
    }"""))  # fmt: skip

    assert counted["stored"] == 1
    assert page.chosen["q"] == ["mask/b"]
    assert page.column("case-list") == ["mask/b"]


def test_what_is_typed_counts_after_a_pause(opened):
    page = opened()

    page.tab.locator("#search").fill("mask/b")

    page.tab.wait_for_url("**q=mask*")
    assert page.column("case-list") == ["mask/b"]


def _fits(page, width: int) -> None:
    """No part of the page but its tables is scrolled sideways."""
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    assert max(page.measure("select", "each.getBoundingClientRect().right")) <= width


def _readable(page) -> None:
    """Names of implementations stand on one line, and in reach when the matrix is scrolled."""
    assert max(page.measure(".matrix tbody tr", "each.offsetHeight")) < 40
    page.tab.evaluate("document.querySelectorAll('.matrix').forEach((each) => { each.scrollLeft = 500; })")
    box = page.tab.locator(".matrix >> visible=true").first
    assert box.evaluate("each => each.scrollLeft") > 0
    assert box.locator("tbody th").first.bounding_box()["x"] == pytest.approx(box.bounding_box()["x"], abs=1)


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_the_page_fits_its_window_and_names_do_not_break(opened, wide_file, width):
    page = opened(at=wide_file, width=width)

    _fits(page, width)
    _readable(page)
    (known,) = page.tab.locator("[data-what=failures] table >> visible=true").all()
    assert known.locator("tbody tr").count() == 2, "a row for each finding"
    assert known.bounding_box()["height"] < 1200
    assert page.measure(f"#{known.get_attribute('id')} code", "each.offsetWidth")[0] > 150


def test_machines_have_short_names_that_differ(opened, wide_file):
    page = opened(at=wide_file)

    names = page.tab.get_by_label("Machine", exact=True).locator("option").all_inner_texts()

    assert names == [
        "Intel Xeon, family 6, model 207 of a long name, 2 cores, amd-epyc-2-cores",
        "Intel Xeon, family 6, model 207 of a long name, 2 cores",
    ]


def test_the_link_of_a_cell_shows_its_machine_and_its_cases(opened):
    page = opened("#m=another")
    link = page.tab.get_by_role("link", name="attention/loops, mask: ✓ 2/2")

    again = opened(link.get_attribute("href"))

    assert again.chosen["m"] == ["another"]
    assert again.column("case-list") == ["mask/a", "mask/b"]
    assert again.tab.locator("#cases-title").bounding_box()["y"] == pytest.approx(0, abs=40)


def test_a_link_keeps_the_machine_and_opens_at_what_was_chosen(opened):
    page = opened("")
    page.choose("cases", "Status", "failing")

    again = opened("#" + page.tab.url.partition("#")[2])

    assert page.chosen["m"] == [MACHINE.name]
    assert again.tab.locator("#cases").bounding_box()["y"] == pytest.approx(0, abs=40)


def test_the_order_of_every_table_stands_in_the_address(opened):
    page = opened()
    overview = "#overview .of:visible tbody th"
    as_made = page.tab.locator(overview).all_inner_texts()
    page.tab.locator("#overview .of:visible").get_by_role("button", name="implementation").click()
    page.tab.locator("#overview .of:visible").get_by_role("button", name="implementation").click()

    again = opened("#" + page.tab.url.partition("#")[2])
    sorted_down = again.tab.locator(overview).all_inner_texts()
    page.tab.go_back()
    page.tab.go_back()

    assert sorted_down == sorted(sorted_down, reverse=True) != as_made
    assert page.tab.locator(overview).all_inner_texts() == as_made


SMALL_RATIO = r"\b0\.\d+ ?×"


def test_what_is_slower_is_told_by_how_much_slower_it_is(opened):
    page = opened()
    page.choose("times", "Shape", "vit/b16")
    words = page.tab.locator("body").text_content().partition('{"machines"')[0]

    assert re.findall(SMALL_RATIO, words) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_the_committed_results_fit_and_are_readable(opened, committed_file, width):
    page = opened("#w=vit/b16", at=committed_file, width=width)

    _fits(page, width)
    _readable(page)
    assert max(page.measure("[data-what=failures] table", "each.offsetHeight")) < 2500
    assert max(page.measure(".matrix table", "each.offsetHeight")) < 900


@pytest.mark.slow
def test_a_choice_among_the_committed_results_is_evaluated_once(opened, committed_file):
    page = opened("", at=committed_file)

    shape = page.counted(lambda: page.choose("choosing", "Shape", "vit/b16"))
    search = page.counted(lambda: page.write("mask"))

    assert max(search["parsed"], shape["parsed"]) <= 4
    assert max(search["read"], shape["read"]) < 1000
    assert re.findall(SMALL_RATIO, page.tab.locator("main").text_content()) == []
