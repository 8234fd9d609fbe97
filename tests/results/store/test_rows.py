"""What is written is read back: lean, strict JSON row by row, whatever a submission says."""

import gc
import json
import math
from types import MappingProxyType

import pytest
from msgspec.structs import fields, replace
from stored import MACHINE, MISSING, RUN, journal, measurement, outcome, read, record, table

from attnsuite.model import Reason, UsageError
from attnsuite.results.store import Results
from attnsuite.results.store.rows import lean

FULL = measurement(
    detail="a\n| detail √",
    seconds=(0.001, 0.00123456, 2.0),
    processes="010",
    calls=7,
    stopped="narrow",
    first_call=1.5,
    making={"factory": 3.5, "export": 3.0},
    warm_up=0.25,
    memory={"output": 262144, "resident": 1048580.0, "allocator": None},
    work={"attended": 1e9, "bytes": 4096.0},
    ceilings={"flops": 1e11},
    own_clock=1.04,
    error_ratio=0.125,
    relative_error={"largest": 0.026, "rms": 0.0125},
    kernel="aten::bmm, aten::softmax",
    telemetry={"sm_clock": [1980, 1980.5], "power_absent": "no NVML", "throttle": {"thermal": False}},
    known="a-finding",
    reason=Reason.TOO_SLOW,
)


def refuse(constant):
    raise AssertionError(constant)


@pytest.mark.parametrize("finish", [True, False])
def test_outcomes_are_read_back(tmp_path, finish):
    written = [
        outcome("a", error_ratio=0.25, seconds=0.5),
        outcome(
            "b",
            "wrong",
            detail='equals "unscaled": the scores are not divided by √e\n| and more',
            known="a-finding",
            diagnosis=("unscaled",),
        ),
        outcome("c", "wrong", error_ratio=math.inf),
        outcome("d", "raised", detail="lone surrogate \udc80, separator \u2028, NUL \0"),
        replace(outcome("e", "declined", reason=Reason.UNTAKEN), contract="of-another-name"),
    ]

    record(tmp_path, RUN, *written, finish=finish)

    recorded = read(tmp_path)
    assert recorded.outcomes == written
    assert recorded.run == replace(RUN, finished=recorded.run.finished)
    assert bool(recorded.run.finished) is finish


@pytest.mark.parametrize("finish", [True, False])
def test_measurements_are_read_back_field_by_field(tmp_path, finish):
    assert all(getattr(FULL, field.name) for field in fields(FULL))  # a new field is to be written here

    record(tmp_path, RUN, FULL, measurement("b", "out_of_memory"), MISSING, finish=finish)

    assert read(tmp_path).measured == (("r1", MISSING), ("r1", measurement("b", "out_of_memory")), ("r1", FULL))
    assert isinstance(read(tmp_path).measurements[2].seconds, tuple)


@pytest.fixture
def usual_threshold():
    """Python's own threshold of its garbage collector: a command that ran in this process raises it."""
    before = gc.get_threshold()
    gc.set_threshold(700, *before[1:])
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("was", [True, False])
@pytest.mark.usefixtures("usual_threshold")
def test_nobody_looks_for_garbage_while_results_are_read(tmp_path, was):
    record(tmp_path, RUN, *(outcome(f"case/{number}") for number in range(4 * gc.get_threshold()[0])))
    looks = []
    gc.collect()
    gc.callbacks.append(lambda phase, _: looks.append(phase))
    try:
        (gc.enable if was else gc.disable)()
        rows = Results(tmp_path).read(MACHINE.name).rows
        assert looks.count("start") <= was, "but once, when it is over"
        assert gc.isenabled() is was
        table(tmp_path).write_text("[]\n")
        with pytest.raises(UsageError):
            Results(tmp_path).read(MACHINE.name)
        assert gc.isenabled() is was
    finally:
        gc.callbacks.pop()
        gc.enable()
    assert len(rows) == 4 * gc.get_threshold()[0]


def test_rows_of_the_journal_are_lean_and_name_their_run(tmp_path):
    samples = (0.00123456789, 0.1, 0.1, 12.3456789)
    memory = MappingProxyType({"output": 12345678, "resident": 12345678.9})

    record(tmp_path, RUN, outcome(seconds=0.00123456), measurement(seconds=samples, memory=memory), finish=False)

    asked = {"run": "r1", "implementation": "attention/loops", "contract": "attention"}
    assert [json.loads(line) for line in journal(tmp_path).read_text().splitlines()] == [
        {
            **asked,
            "case": "small/plain",
            "dtype": "float32",
            "device": "cpu",
            "status": "passed",
            "seconds": 0.001235,
        },
        {
            **asked,
            "workload": "ladder/1k",
            "dtype": "float32",
            "device": "cpu",
            "threads": 1,
            "direction": "forward",
            "cache": "hot",
            "status": "measured",
            "seconds": [0.00123457, 0.1, 0.1, 12.3457],
            "memory": {"output": 12345678, "resident": 12345700.0},
        },
    ]


def test_finished_measurements_keep_every_sample_at_six_digits(tmp_path):
    record(tmp_path, RUN, measurement(seconds=(0.00123456789, 0.1, 0.1, 12.3456789)))

    assert read(tmp_path).measurements[0].seconds == (0.00123457, 0.1, 0.1, 12.3457)


def test_which_process_took_a_sample_is_kept_and_nothing_where_there_was_one(tmp_path):
    record(tmp_path, RUN, measurement("a", seconds=(0.1, 0.2, 0.3), processes="010"), measurement("b"))

    assert [each.processes for each in read(tmp_path).measurements] == ["010", ""]
    assert "processes" not in lean(measurement("b"))


@pytest.mark.parametrize("finish", [True, False])
def test_rows_are_strict_json_and_utf8_however_deep_a_number_is_no_number(tmp_path, finish):
    odd = measurement(error_ratio=math.inf, telemetry={"power": [math.nan, {"x": -math.inf}]}, work={"bytes": math.inf})
    record(tmp_path, RUN, outcome("a", "wrong", error_ratio=math.nan, detail="\udc80√"), odd, finish=finish)

    for file in (table(tmp_path), table(tmp_path, "benchmark")) if finish else (journal(tmp_path),):
        for line in file.read_bytes().decode().splitlines():
            assert json.loads(line, parse_constant=refuse)
    assert math.isnan(read(tmp_path).outcomes[0].error_ratio)
    assert read(tmp_path).measurements[0].telemetry == {"power": ["nan", {"x": "-inf"}]}
    assert read(tmp_path).measurements[0].error_ratio == math.inf
    assert read(tmp_path).measurements[0].work == {"bytes": math.inf}


def test_a_submission_that_says_megabytes_is_cut_however_deep(tmp_path):
    much = "x" * 5_000_000
    record(tmp_path, RUN, outcome(status="raised", detail=much), measurement("a", "raised", telemetry={"why": [much]}))

    assert table(tmp_path).stat().st_size + table(tmp_path, "benchmark").stat().st_size < 5000
    assert read(tmp_path).outcomes[0].detail.endswith("(5000000 characters)")


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    with Results(tmp_path).open_run(RUN) as writer:
        writer.write(measurement("a"))
        for broken in (
            measurement(seconds=(0.0,)),
            measurement(seconds=()),
            measurement(status="fine"),
            replace(outcome(), status="?"),
        ):
            with pytest.raises(ValueError, match=r"seconds|status"):
                writer.write(broken)

    assert read(tmp_path).measurements == [measurement("a")]


@pytest.mark.parametrize("finish", [True, False])
def test_a_closed_run_takes_no_rows(tmp_path, finish):
    writer = record(tmp_path, RUN, finish=finish)

    for each in (outcome(), measurement()):
        with pytest.raises(ValueError, match="closed"):
            writer.write(each)
    assert not journal(tmp_path).exists()
