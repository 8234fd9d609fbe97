"""`attnsuite migrate` brings the former layout into today's, and nothing is lost wherever it is killed."""

import json

import pytest
from msgspec.structs import asdict, replace
from stored import MACHINE, RUN, SECOND, THIRD, folder, in_child, measurement, outcome, read, record

from attnsuite.model import ContractFacts, Reason, UsageError
from attnsuite.results.store import Results, load, read_outcomes, rows
from attnsuite.results.store.migration import migrate

NOTED = {
    "facts": {
        "contracts": {"attention": {"features": {}, "cases": {"plain": ["causal"]}}},
        "workloads": {"transformer": {"a/b": {"group": "a", "shape": "s", "why": "w", "length": 9}}},
        "findings": {"pt-1": "reads past the end"},
    },
    "profile": "full",
    "seconds": {"rounds": 1.5},
}
LARGE = replace(MACHINE, caches={"L2": 2**21, "L3": 300 * 2**20})
SMALL = replace(MACHINE, caches={"L2": 2**21, "L3": 260 * 2**20})


def former(results, runs, records):
    """A folder as the former layout had it: `records` pair a run's id with an outcome or a measurement."""
    place = folder(results)
    place.mkdir(parents=True)
    lines = []
    for run in runs:
        row = {name: value for name, value in asdict(run).items() if name != "facts" and value}
        lines.append({"format": 1, **row, "notes": NOTED})
    by_file = {"runs": lines, "conformance": [], "benchmark": []}
    for identity, of in records:
        kind = "conformance" if hasattr(of, "case") else "benchmark"
        by_file[kind].append({"run": identity, **rows.lean(of)})
    for name, each in by_file.items():
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))


ENDED = {"finished": "2026-01-02T04:00:00+00:00"}
RECORDS = [
    ("r1", outcome("b", "wrong", detail="output is off", error_ratio=9.0, seconds=0.5)),
    ("r1", outcome("a", error_ratio=0.1234, seconds=0.001)),
    ("r1", outcome("a", dtype="float16", error_ratio=0.5)),
    ("r1", measurement("b", seconds=(0.00123457, 0.5))),
    ("r2", outcome("b", "declined", detail="no masks")),
    ("r2", measurement("a", "declined", detail="needs a GPU")),
]


@pytest.fixture
def results(tmp_path):
    former(tmp_path / "results", [replace(RUN, **ENDED), replace(SECOND, **ENDED)], RECORDS)
    return tmp_path / "results"


def test_the_former_layout_is_named_with_the_command_that_helps(results):
    before = {path: path.read_bytes() for path in results.rglob("*.jsonl")}
    elsewhere = replace(RUN, machine=replace(MACHINE, name="another"))

    uses = (
        read_outcomes,
        load,
        lambda path: Results(path).open_run(RUN),
        lambda path: Results(path).open_run(elsewhere),  # it would be in the way of the report after hours
    )
    for use in uses:
        with pytest.raises(UsageError) as refusal:
            use(results)
        assert f"`attnsuite migrate --results {results}`" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert {path: path.read_bytes() for path in results.rglob("*.jsonl")} == before


def test_what_tables_show_is_there_afterwards(results):
    said = list(migrate(results))

    recorded = read(results)
    assert recorded.rows == (
        ("r1", outcome("a", dtype="float16", error_ratio=0.5)),
        ("r1", outcome("a", error_ratio=0.123, seconds=0.001)),
        ("r2", outcome("b", "declined", detail="no masks")),
    )
    assert recorded.measured == (
        ("r2", measurement("a", "declined", detail="needs a GPU")),
        ("r1", measurement("b", seconds=(0.00123457, 0.5))),
    )
    assert [*recorded.runs] == ["r1", "r2"]
    assert "3 outcomes and 2 measurements migrated" in said[-1]


def test_what_former_runs_noted_has_today_s_form(results):
    list(migrate(results))

    found = read(results).run.facts

    assert found.contracts["attention"] == ContractFacts({}, {"plain": ("causal",)}, "matmul")
    assert found.contracts["transformer"] == ContractFacts(baseline="eager", is_model=True)
    assert found.workloads["transformer"]["a/b"].length == 9
    assert found.findings == {"pt-1": "reads past the end"}
    assert (found.profile, found.seconds) == ("full", {"rounds": 1.5})


def test_a_former_row_has_the_deviation_and_the_reason_that_its_detail_names(tmp_path):
    wrong = outcome("a", "wrong", detail='output[0] is 1; equals "unscaled": no scale or equals "untied": x')
    raised = outcome("b", "raised", detail='ValueError: equals "unscaled"')
    slow = measurement("c", "declined", detail="too slow to time here")
    former(tmp_path, [replace(RUN, **ENDED)], [("r1", wrong), ("r1", raised), ("r1", slow)])

    list(migrate(tmp_path))

    assert read(tmp_path).outcomes == [replace(wrong, diagnosis=("unscaled", "untied")), raised]
    assert read(tmp_path).measurements == [replace(slow, reason=Reason.TOO_SLOW)]


def test_a_run_that_was_interrupted_stays_so(tmp_path):
    former(tmp_path, [replace(RUN, **ENDED), SECOND], RECORDS)

    list(migrate(tmp_path))

    assert not read(tmp_path).runs["r2"].finished
    assert record(tmp_path, SECOND, finish=False).recorded == [outcome("b", "declined", detail="no masks")]


def test_a_second_migration_changes_nothing(results):
    list(migrate(results))
    before = {path: path.read_bytes() for path in results.rglob("*.*") if path.is_file()}

    assert list(migrate(results)) == [f"{folder(results)}: has today's layout already"]

    assert {path: path.read_bytes() for path in results.rglob("*.*") if path.is_file()} == before


def test_machines_that_share_a_folder_get_one_each_and_the_newest_keeps_it(tmp_path):
    runs = [replace(RUN, machine=LARGE, **ENDED), replace(SECOND, machine=SMALL, **ENDED)]
    former(tmp_path, runs, RECORDS)

    said = list(migrate(tmp_path))

    both = read_outcomes(tmp_path)
    assert sorted(both) == ["amd-epyc-2-cores", "amd-epyc-2-cores-l3-300-mib"]
    assert [run for run, _ in both["amd-epyc-2-cores"].rows] == ["r2"]
    assert [run for run, _ in both["amd-epyc-2-cores-l3-300-mib"].rows] == ["r1", "r1", "r1"]
    assert both["amd-epyc-2-cores-l3-300-mib"].run.machine.name == "amd-epyc-2-cores-l3-300-mib"
    assert "are of a machine with L3 300 MiB, not 260 MiB" in said[0]
    assert record(tmp_path, replace(THIRD, machine=LARGE)).run.machine.name == "amd-epyc-2-cores-l3-300-mib"
    assert record(tmp_path, replace(THIRD, machine=SMALL)).run.machine.name == "amd-epyc-2-cores"


KILLED = """
import shutil
from attnsuite.results.store.migration import migrate

def counted(operation, left):
    def run(*arguments, **options):
        if not left[0]:
            os.kill(os.getpid(), 9)
        left[0] -= 1
        return operation(*arguments, **options)
    return run

for number in range(1000):
    place = results.parent / "killed" / str(number)
    shutil.copytree(results, place)
    child = os.fork()
    if not child:
        left = [number]
        for name in ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync"):
            setattr(os, name, counted(getattr(os, name), left))
        list(migrate(place))
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def shown(results):
    """What both tables of `load` hold, but for the machine's folder."""
    return [
        sorted(map(repr, load(results, kind).drop(columns="machine").to_dict("records")))
        for kind in ("conformance", "benchmark")
    ]


@pytest.mark.parametrize("machines", [(MACHINE, MACHINE), pytest.param((LARGE, SMALL), marks=pytest.mark.slow)])
def test_a_migration_that_is_killed_at_any_file_operation_loses_nothing(tmp_path, machines):
    one, two = machines
    runs = [replace(RUN, machine=one, **ENDED), replace(SECOND, machine=two, **ENDED)]
    former(tmp_path / "results", runs, RECORDS)
    child = in_child(tmp_path / "results", KILLED)
    child.communicate()
    assert child.returncode == 0
    list(migrate(tmp_path / "results"))
    due = shown(tmp_path / "results")

    killed = sorted((tmp_path / "killed").iterdir())

    assert len(killed) > 20
    for results in killed:
        assert not load_or_refusal(results) or "attnsuite migrate" in load_or_refusal(results)
        list(migrate(results))
        assert shown(results) == due
        assert not list(results.rglob(".*"))


def load_or_refusal(results):
    """What is said where the results cannot be read; empty where they can."""
    try:
        load(results)
    except UsageError as error:
        return str(error)
    return ""


def test_a_row_that_is_none_stops_the_migration_and_nothing_is_replaced(results):
    path = folder(results) / "conformance.jsonl"
    path.write_text("garbage\n" + path.read_text())
    before = path.read_bytes()

    with pytest.raises(UsageError, match=r"conformance\.jsonl, line 1: this is no row of results"):
        list(migrate(results))

    assert path.read_bytes() == before


def test_a_row_of_a_run_that_is_not_there_stops_the_migration(results):
    runs = folder(results) / "runs.jsonl"
    runs.write_text(runs.read_text().splitlines(keepends=True)[0])

    with pytest.raises(UsageError, match=r"conformance\.jsonl, line 4: runs\.jsonl has no run 'r2'"):
        list(migrate(results))


def test_a_row_that_a_crash_cut_off_is_said_to_be_dropped(results):
    path = folder(results) / "benchmark.jsonl"
    path.write_text(path.read_text()[:-30])

    assert "the last row was cut off by a crash" in next(migrate(results))


def test_without_results_it_says_what_makes_them(tmp_path):
    with pytest.raises(UsageError, match=r"holds no results; `attnsuite run` makes them"):
        list(migrate(tmp_path))
