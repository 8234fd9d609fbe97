"""What cannot be written is one line, and costs no row that is there."""

import os
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from stored import MACHINE, RUN, folder, in_child, journal, measurement, names, outcome, read, record, table

from attnsuite.model import Facts, UsageError
from attnsuite.results.store import Results, replace_file


def test_a_file_in_place_of_the_folder_is_refused_in_one_line(tmp_path):
    (tmp_path / "results").write_text("a file")
    (tmp_path / MACHINE.name).write_text("another")

    for path in (tmp_path / "results", tmp_path):
        with pytest.raises(UsageError, match=r"cannot be written: (Not a directory|File exists)"):
            Results(path).open_run(RUN)


@pytest.mark.parametrize("name", ["journal.jsonl", "runs.jsonl", "conformance.jsonl", "benchmark.seconds.gz"])
def test_a_folder_in_place_of_a_file_is_refused_in_one_line(tmp_path, name):
    (folder(tmp_path) / name).mkdir(parents=True)

    with pytest.raises(UsageError, match=r"cannot be .*: Is a directory"):
        Results(tmp_path).open_run(RUN)


@pytest.fixture
def read_only():
    """A folder that this process may read but not write, even if it was started by root."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield path
        os.seteuid(user)


def test_a_read_only_folder_is_refused_in_one_line(read_only):
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        Results(read_only).open_run(RUN)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("make", [outcome, measurement])
def test_a_full_disk_leaves_the_earlier_rows(tmp_path, make):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(make("a"))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._journal)
    os.close(full)

    with pytest.raises(UsageError, match=r"journal\.jsonl cannot be written: No space left on device"):
        writer.write(make("b"))
    writer.close()

    assert writer.done | writer.measured == {make("a").key}
    assert [*read(tmp_path).outcomes, *read(tmp_path).measurements] == [make("a")]


def test_a_disk_that_takes_half_a_row_keeps_none_of_it(tmp_path):
    child = in_child(
        tmp_path,
        """
import resource, signal
from attnsuite.model import UsageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = Results(results).open_run(RUN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    for number in range(100):
        writer.write(outcome(f"case/{number}"))
except UsageError as error:
    print(number, error)
""",
    )
    said, _ = child.communicate()
    assert "journal.jsonl cannot be written: File too large" in said
    assert journal(tmp_path).read_bytes().endswith(b"}\n")
    with Results(tmp_path).open_run(RUN) as writer:
        assert len(writer.recorded) == int(said.split()[0])
        assert writer.notes == ()


def test_a_full_disk_at_the_end_leaves_everything_as_it_was(tmp_path, monkeypatch):
    record(tmp_path, replace(RUN, id="r0", suite="suite-0"), outcome("a", "wrong"), measurement("a"))
    writer = Results(tmp_path).open_run(RUN)
    writer.write(outcome("a"))
    writer.write(measurement("a", seconds=(1.0,)))
    before = {name: (folder(tmp_path) / name).read_bytes() for name in names(tmp_path)}

    def full(file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match="No space left on device"):
            writer.finish(profile="quick")
    assert {name: (folder(tmp_path) / name).read_bytes() for name in names(tmp_path)} == before
    assert (writer.run.finished, writer.run.facts) == ("", Facts())
    assert writer.finish().finished  # there is room again
    assert read(tmp_path).measured == (("r1", measurement("a", seconds=(1.0,))),)
    assert table(tmp_path).exists()


def test_replacing_a_file_keeps_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    replace_file(tmp_path / "page", "text")
    record(tmp_path, RUN, outcome())

    mode = (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "page").stat().st_mode == mode
    assert {(folder(tmp_path) / name).stat().st_mode for name in names(tmp_path)} == {mode}


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", ".hidden"])
def test_a_machine_cannot_be_a_path(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be"):
        Results(tmp_path).open_run(replace(RUN, machine=replace(MACHINE, name=name)))
