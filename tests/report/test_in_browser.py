"""report.html and cases.html in a real browser, on the committed results."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs

import pytest
<<<<<<< HEAD
from builders import MACHINE, measured, outcome, without_time
from msgspec import structs
from pages import TIMED, recorded
=======
>>>>>>> accf93bd (Tests of the new pages: sentences, marks, hostile texts, a real browser on the committed results)

from attnsuite.report import write_report
from attnsuite.results.store import read_outcomes

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed: report.html is not tried in a browser")
<<<<<<< HEAD

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
=======
WIDTHS = ((390, 844), (1024, 768), (1440, 900))
>>>>>>> accf93bd (Tests of the new pages: sentences, marks, hostile texts, a real browser on the committed results)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def machines():
    return read_outcomes(Path(__file__).parents[2] / "results")


@pytest.fixture(scope="module")
<<<<<<< HEAD
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
=======
def file(machines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("committed")
    for name in machines:
        (folder / name).mkdir()
    return write_report(folder, machines, draws=False)[-1]
>>>>>>> accf93bd (Tests of the new pages: sentences, marks, hostile texts, a real browser on the committed results)


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
def test_the_answer_is_on_the_first_screen_and_nothing_scrolls_sideways(opened, width, height):
    tab = opened("", width, height)

    box = tab.locator(".answer p").first.bounding_box()

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
    assert "8192" in tab.locator("#answer caption").inner_text()
    assert tab.evaluate("document.activeElement.name") == "workload"
    again = opened("#" + tab.url.partition("#")[2])
    assert again.locator("#answer table").inner_text() == tab.locator("#answer table").inner_text()


def test_each_machine_can_be_chosen_and_shows_its_own(opened, machines):
    tab = opened()

    for name, recorded in machines.items():
        tab.get_by_label("machine").select_option(name)

        shown = tab.locator("section [data-machine]:visible").evaluate_all("all => all.map(of => of.dataset.machine)")
        assert set(shown) == {name}
        assert tab.locator("#answer table").count() == bool(recorded.measured)
    assert tab.trouble == []


def test_the_times_are_the_medians_of_the_rows(opened, machines):
    tab = opened()
    shown = dict(tab.locator("#answer tbody tr").evaluate_all(
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


def test_a_known_bug_can_be_linked_to(opened, file):
    anchor = re.search(r'id="(bug-[^"]+)"', file.read_text())[1]
    tab = opened(f"#{anchor}")

    assert tab.locator(f"#{anchor}").is_visible()


def test_the_number_of_a_bug_leads_to_its_card(opened):
    tab = opened()
    link = tab.locator("#answer a").first
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

    assert tab.locator("#answer table").count() >= 1
    assert tab.locator(".answer p").first.inner_text().startswith("Fastest: ")
    assert tab.locator(".matrix table").first.is_visible()


@pytest.mark.parametrize("hash_part", ["#m=nosuch", "#workload=<img src=x>", "#%", "#m=&workload="])
def test_an_address_with_nonsense_shows_the_default(opened, hash_part):
    tab = opened(hash_part)

    assert tab.locator("#answer table").count() == 1
    assert tab.trouble == []


def test_pages_are_small(file):
    assert file.stat().st_size < 700_000
