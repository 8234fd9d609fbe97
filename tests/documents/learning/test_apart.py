"""Work in copies of this process: in order, as many at once as asked, and ended together."""

import os
import pickle
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from attnsuite.documents.learning import apart as apart_module
from attnsuite.documents.learning.apart import Work, apart
from attnsuite.documents.learning.engine import Watch
from attnsuite.model import UsageError
from attnsuite.worker.copies import compute_gradients

pytestmark = pytest.mark.skipif(not compute_gradients(), reason="no copy of this process may be made")

LONGEST = 60.0
"""Seconds that a test waits for another process."""


def wait_for(file: Path) -> None:
    until = time.monotonic() + LONGEST
    while not file.exists():
        assert time.monotonic() < until, f"{file} does not come"
        time.sleep(0.01)


def meets(folder: Path, own: str, other: str, watch: Watch) -> str:
    """Is done once the other has begun, too."""
    (folder / own).touch()
    wait_for(folder / other)
    return own


def returns(what: object, watch: Watch) -> object:
    return what


def refuses(watch: Watch) -> object:
    raise UsageError("it is wrong")


def says_who_it_is_and_waits(folder: Path, watch: Watch) -> object:
    (folder / "new").write_text(str(os.getpid()), encoding="utf-8")
    (folder / "new").rename(folder / "waits")
    time.sleep(10 * LONGEST)
    return None


def is_interrupted_once_another_waits(folder: Path, watch: Watch) -> object:
    wait_for(folder / "waits")
    signal.raise_signal(signal.SIGINT)
    return None


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def works(*dos: object) -> list[Work[object]]:
    return [Work(do, f"work {place}") for place, do in enumerate(dos)]  # type: ignore[arg-type]


def ended(folder: Path) -> bool:
    number = int((folder / "waits").read_text(encoding="utf-8"))
    return not psutil.pid_exists(number)


def test_as_many_are_done_at_once(tmp_path: Path) -> None:
    each = works(partial(meets, tmp_path, "a", "b"), partial(meets, tmp_path, "b", "a"))

    assert list(apart(each, at_once=2)) == ["a", "b"]


def test_no_more_are_done_at_once(tmp_path: Path) -> None:
    def begun(number: int, watch: Watch) -> bool:
        (tmp_path / str(number)).touch()
        time.sleep(0.2)
        return (tmp_path / str(number + 2)).exists()

    assert list(apart(works(*(partial(begun, number) for number in range(4))), at_once=2)) == [False] * 4


def test_they_come_in_their_order_whoever_is_done_first(tmp_path: Path) -> None:
    def last(watch: Watch) -> str:
        wait_for(tmp_path / "c")
        return "a"

    def first(watch: Watch) -> str:
        (tmp_path / "c").touch()
        return "c"

    assert list(apart(works(last, partial(returns, "b"), first), at_once=2)) == ["a", "b", "c"]


def test_each_is_watched_by_its_own(tmp_path: Path) -> None:
    seen: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}

    def epochs(own: str, other: str, watch: Watch) -> str:
        watch(1, len(own))
        meets(tmp_path, own, other, watch)
        watch(2, len(own))
        return own

    each = [
        Work(partial(epochs, own, other), own, lambda own=own: lambda *said: seen[own].append(said))  # type: ignore[misc]
        for own, other in (("a", "b"), ("b", "a"))
    ]

    assert list(apart(each, at_once=2)) == ["a", "b"]
    assert seen == {"a": [(1, 1), (2, 1)], "b": [(1, 1), (2, 1)]}


def test_what_stands_before_a_refusal_is_there_and_what_stands_behind_it_never_begins(tmp_path: Path) -> None:
    def once_refused(watch: Watch) -> str:
        time.sleep(0.5)
        return "a"

    found = apart(works(once_refused, refuses, lambda watch: (tmp_path / "begun").touch()), at_once=2)

    assert next(found) == "a"
    with pytest.raises(UsageError, match=r"^it is wrong$"):
        next(found)
    assert not (tmp_path / "begun").exists()


def test_a_refusal_ends_those_behind_it_that_have_begun(tmp_path: Path) -> None:
    def refused(watch: Watch) -> object:
        wait_for(tmp_path / "waits")
        raise UsageError("it is wrong")

    with pytest.raises(UsageError, match=r"^it is wrong$"):
        list(apart(works(refused, partial(says_who_it_is_and_waits, tmp_path)), at_once=2))
    assert ended(tmp_path)


def test_ctrl_c_ends_all_of_them(tmp_path: Path) -> None:
    waits, interrupted = says_who_it_is_and_waits, is_interrupted_once_another_waits

    with pytest.raises(KeyboardInterrupt):
        list(apart(works(partial(waits, tmp_path), partial(interrupted, tmp_path)), at_once=2))
    assert ended(tmp_path)


def test_they_end_where_nobody_asks_on(tmp_path: Path) -> None:
    def first(watch: Watch) -> str:
        wait_for(tmp_path / "waits")
        return "a"

    found = apart(works(first, partial(says_who_it_is_and_waits, tmp_path)), at_once=2)
    assert next(found) == "a"
    found.close()  # type: ignore[attr-defined]

    assert ended(tmp_path)


def test_what_a_work_raises_as_if_ctrl_c_had_come_is_refused() -> None:
    def pretends(watch: Watch) -> object:
        raise KeyboardInterrupt

    with pytest.raises(UsageError, match=r"^work 0 raised KeyboardInterrupt$"):
        list(apart(works(pretends)))


def test_a_process_that_ends_is_noticed_though_one_that_it_has_started_goes_on() -> None:
    def leaves_one(watch: Watch) -> object:
        if os.fork() == 0:
            time.sleep(LONGEST / 2)
        os._exit(3)

    began = time.monotonic()
    with pytest.raises(UsageError, match=r"ended without a word \(exit status 3\)$"):
        list(apart(works(leaves_one)))
    assert time.monotonic() - began < LONGEST / 4


def test_what_a_work_has_started_ends_with_it(tmp_path: Path) -> None:
    def leaves_one(watch: Watch) -> int:
        child = subprocess.Popen(["sh", "-c", f"sleep {10 * LONGEST:g} & echo $!"], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        return int(child.stdout.readline())  # of a grandchild, whose parent has ended

    (left,) = apart(works(leaves_one))

    assert not psutil.pid_exists(left)  # type: ignore[arg-type]


def test_a_work_has_no_file_of_this_process(tmp_path: Path) -> None:
    """Nor the pipe of another work."""
    with (tmp_path / "mine").open("w") as file:

        def writes(watch: Watch) -> int:
            os.write(file.fileno(), b"here I am")
            return len(
                [each for each in Path("/proc/self/fd").iterdir() if each.exists() and "pipe" in str(each.readlink())]
            )

        found = list(apart(works(writes, writes), at_once=2))

    assert (tmp_path / "mine").read_text(encoding="utf-8") == ""
    assert found[1] <= 1 + 3, "its own, and those of standard input, output and error"  # type: ignore[operator]


@pytest.mark.parametrize("message", [("found", None), ("epoch", 5), ("epoch", (1, "x")), ("refused", 5), ("odd", 1), 7])
def test_a_message_that_is_none_is_not_believed(message: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "GRACE", 0.1)
    said = pickle.dumps(message)

    def writes(watch: Watch) -> object:
        for each in Path("/proc/self/fd").iterdir():
            if int(each.name) > 2 and each.exists() and "pipe" in str(each.readlink()):
                os.write(int(each.name), struct.pack("!i", len(said)) + said)
        time.sleep(10 * LONGEST)
        return 1

    with pytest.raises(UsageError, match=r"^the process that asked attention ended without a word"):
        list(apart([Work(writes, "attention", due=int)]))


def test_a_process_that_ends_without_a_word_is_named() -> None:
    def ends(watch: Watch) -> object:
        os._exit(3)

    found = apart(works(partial(returns, 1), ends), at_once=2)

    assert next(found) == 1
    with pytest.raises(UsageError, match=r"^the process that asked work 1 ended without a word \(exit status 3\)$"):
        next(found)
