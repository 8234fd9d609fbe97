"""A run goes on where it was interrupted, if it is asked alike on the same machine, and no other run does."""

import pytest
from msgspec.structs import replace
from stored import MACHINE, RUN, SECOND, measurement, outcome, read, record


def test_only_an_unfinished_run_is_resumed(tmp_path):
    record(tmp_path, RUN, outcome("a"), finish=False)
    resumed = record(tmp_path, replace(RUN, id="r2"), outcome("b"))
    fresh = record(tmp_path, replace(RUN, id="r3"), outcome("b"))

    assert (resumed.resumed, resumed.run.id) == (True, "r1")
    assert (fresh.resumed, fresh.run.id, fresh.recorded) == (False, "r3", [])


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "suite-2"},
        {"sources": {"attention/loops": "2b"}},
        {"sources": {"attention/loops": "1a", "attention/matmul": "3c"}},
        {"versions": {"torch": "2.14.0"}},
        {"machine": replace(MACHINE, system="Linux 7")},
        {"machine": replace(MACHINE, accelerators=())},
        {"asked": "bench"},
    ],
)
def test_what_is_asked_differently_is_not_resumed(tmp_path, change):
    record(tmp_path, RUN, outcome("a"), finish=False)

    assert not record(tmp_path, replace(RUN, id="r2", **change), finish=False).resumed


def test_what_a_resumed_run_asked_twice_counts_once(tmp_path):
    record(tmp_path, RUN, outcome("a", "declined", detail="first"), finish=False)
    record(tmp_path, RUN, outcome("a", "declined", detail="second"), finish=False)

    assert record(tmp_path, RUN, finish=False).recorded == [outcome("a", "declined", detail="second")]
    record(tmp_path, RUN)
    assert read(tmp_path).outcomes == [outcome("a", "declined", detail="second")]


def test_a_resumed_run_knows_its_own_rows_only(tmp_path):
    record(tmp_path, SECOND, measurement("old"), outcome("old"))
    record(tmp_path, RUN, measurement("a", "raised"), outcome(), finish=False)
    record(tmp_path, RUN, measurement("a"), finish=False)

    writer = record(tmp_path, RUN, finish=False)

    assert writer.recorded_measurements == [measurement("a")]
    assert writer.measured == {measurement("a").key}
    assert writer.recorded == [outcome()]
    assert writer.done == {outcome().key}


def test_a_reboot_does_not_hinder_resuming(tmp_path):
    record(tmp_path, RUN, outcome("a"), finish=False)
    rebooted = replace(MACHINE, memory_bytes=MACHINE.memory_bytes - 4096)

    assert record(tmp_path, replace(RUN, id="r2", commit="def", machine=rebooted), finish=False).resumed


def test_a_run_id_that_is_taken_gets_a_number(tmp_path):
    record(tmp_path, RUN, outcome("a"))

    assert record(tmp_path, RUN, outcome("a")).run.id == "r1-2"


def test_a_resumed_run_is_newer_than_one_that_came_between(tmp_path):
    record(tmp_path, RUN, outcome("a"), finish=False)
    record(tmp_path, replace(RUN, id="r2", suite="suite-2"), outcome("a", "wrong"), finish=False)
    record(tmp_path, RUN, outcome("b"), finish=False)

    assert read(tmp_path).rows == (("r1", outcome("a")), ("r1", outcome("b")))


def test_a_run_that_was_interrupted_can_go_on_after_another_was_finished(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("b"), measurement(), finish=False)
    record(tmp_path, SECOND, outcome("a", "wrong"))

    assert read(tmp_path).rows == (("r2", outcome("a", "wrong")), ("r1", outcome("b")))
    writer = record(tmp_path, RUN, outcome("a"))

    assert (writer.resumed, writer.recorded) == (True, [outcome("b")])
    assert read(tmp_path).rows == (("r1", outcome("a")), ("r1", outcome("b")))
    assert read(tmp_path).measured == (("r1", measurement()),)
