"""One process writes to a machine's folder at a time, and who is refused is told so."""

import pytest
from stored import RUN, folder, in_child, names, outcome, read, record

from attnsuite.model import UsageError
from attnsuite.results.store import Results
from attnsuite.results.store.migration import migrate


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    child = in_child(tmp_path, "writer = Results(results).open_run(RUN)\nready()")
    assert child.stdout.readline() == "ready\n"

    for write in (lambda: Results(tmp_path).open_run(RUN), lambda: list(migrate(tmp_path))):
        with pytest.raises(UsageError, match=r"another attnsuite is writing to .*: wait until it ends, or stop it"):
            write()
    assert read(tmp_path).outcomes == []  # reading is free

    child.kill()
    child.wait()
    child.stdout.close()
    Results(tmp_path).open_run(RUN).close()


def test_a_finished_run_lets_the_next_one_in(tmp_path):
    Results(tmp_path).open_run(RUN).finish()
    Results(tmp_path).open_run(RUN).close()
    assert Results(tmp_path).open_run(RUN).resumed


def test_a_refused_writer_holds_no_lock(tmp_path):
    folder(tmp_path).mkdir()
    (folder(tmp_path) / "journal.jsonl").write_text("garbage\n")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"line 1"):
            Results(tmp_path).open_run(RUN)


def test_locking_leaves_no_file(tmp_path):
    record(tmp_path, RUN, outcome(), finish=False)

    assert names(tmp_path) == ["journal.jsonl", "runs.jsonl"]


def test_a_file_system_without_locks_is_a_note(tmp_path, monkeypatch):
    import fcntl

    def unable(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unable)

    assert "cannot be locked (Operation not supported)" in record(tmp_path, RUN, outcome()).notes[0]
