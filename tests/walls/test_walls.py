"""What walls say of themselves, and what this machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite.temporary import remove
from suite.walls import WALLS, Keeps, Room, cgroups, found_elsewhere, in_short, in_words, limits, named, room, seccomp
from suite.walls.descent import below, resident
from suite.walls.wall import works


def test_what_nothing_keeps_is_said() -> None:
    assert in_words([]).startswith("walls: none; not so on this machine: what it starts ends with it; ")
    assert in_words(["Landlock", "seccomp"]).endswith(
        "what it starts ends with it; memory and the size of files are limited; "
        "the memory and the number of all its processes together, too"
    )
    everything = in_words([each.name for each in WALLS])
    assert "not so" not in everything
    assert all(keeps in everything for keeps in Keeps)
    assert "nor signalled (PID namespace" in everything


def test_a_report_says_it_in_a_short_line() -> None:
    everything = [each.name for each in WALLS]
    assert in_short(everything) == "walls: all 7 stand"
    without = [name for name in everything if name not in ("seccomp", "network namespace", "cgroup")]
    due = "walls: 5 of 7 stand; not kept on this machine: the network, the memory of all its processes together"
    assert in_short(without) == due


def test_a_needless_wall_is_left_out() -> None:
    assert [each.name for each in named(["descent", "PID namespace"])] == ["PID namespace"]
    assert [each.name for each in named(["descent"])] == ["descent"]


@pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if another test imported it: the child ends at once
def test_walls_are_found_by_putting_them_up() -> None:
    assert set(found_elsewhere()) <= {each.name for each in WALLS}
    assert not works(lambda: os.close(-1))
    assert works(lambda: None)


def test_a_page_of_the_machine_s_walls_can_be_printed() -> None:
    said = subprocess.run([sys.executable, "-m", "suite.walls"], capture_output=True, text=True, check=True).stdout
    assert said == in_words(found_elsewhere()) + "\n"


@pytest.mark.parametrize("processor", list(seccomp.NUMBERS))
@pytest.mark.parametrize("process", [0, 7])
def test_the_filter_allows_and_refuses(processor: str, process: int) -> None:
    kernel, numbers = seccomp.NUMBERS[processor]
    allowed, refused = seccomp.ALLOWED, seccomp.REFUSED

    def asked(number: int, argument: int = 0, of: int = kernel) -> int:
        return _run(seccomp.instructions(processor, process), {0: number, 4: of, 16: argument})

    assert all(asked(numbers[name], 7) == refused for name in seccomp.ALWAYS)
    for name in seccomp.SIGNALS:
        assert asked(numbers[name], 7) == allowed
        assert asked(numbers[name], 8) == (refused if process else allowed)
    assert asked(numbers["pidfd_send_signal"]) == (refused if process else allowed)
    assert asked(63) == allowed
    assert asked(63, of=0) == refused
    assert asked(63 | seccomp.OTHER_CALLS) == refused


def _run(program: seccomp.Sequence[seccomp.Instruction], given: dict[int, int]) -> int:
    """What a filter returns, instruction by instruction."""
    place = loaded = 0
    while True:
        code, if_true, if_false, number = program[place]
        place += 1
        if code == seccomp.RETURN:
            return number
        if code == seccomp.LOAD:
            loaded = given[number]
        else:
            true = loaded == number if code == seccomp.EQUAL else loaded >= number
            place += if_true if true else if_false


def test_an_unknown_processor_has_no_filter() -> None:
    with pytest.raises(OSError, match="of pdp11 are not known"):
        seccomp.instructions("pdp11", 0)


def test_a_room_has_the_caches_that_the_user_names_and_no_others(tmp_path: Path) -> None:
    named = tmp_path / "compiled"
    made = room.make_room({"TORCHINDUCTOR_CACHE_DIR": str(named), "XDG_CACHE_HOME": str(tmp_path)}, 5)
    assert made.writable == (named,)
    assert named.is_dir()
    assert made.memory == 5
    (made.folder / "deep").mkdir()
    (made.folder / "deep" / "file").touch()
    (made.folder / "deep").chmod(0)
    (made.folder / "out").symlink_to(tmp_path)
    remove(made.folder)
    assert not made.folder.exists()
    assert named.is_dir()


def test_memory_is_added_up() -> None:
    assert resident(iter([os.getpid()]), 0) > 1 << 20
    assert resident(iter([]), 0) == 0
    assert limits.memory_limit() > 1 << 28
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in below(os.getpid())


def _cgroup(folder: Path, handed_on: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / cgroups.PROCESSES).write_text("1\n")
    (folder / cgroups.HANDED_ON).write_text(handed_on)
    return folder


def test_a_cgroup_is_made_below_the_nearest_that_hands_on_what_is_needed(tmp_path: Path) -> None:
    root = _cgroup(tmp_path / "mounted", "cpu memory pids")
    _cgroup(root / "user", "memory pids\n")
    _cgroup(root / "user" / "scope", "")
    own = tmp_path / "own"
    own.write_text("4:memory:/elsewhere\n0::/user/scope\n")
    assert list(cgroups.places(own, (tmp_path / "none", root))) == [root / "user", root]
    assert list(cgroups.places(own, (tmp_path / "none",))) == []
    own.write_text("0::/../outside\n")
    assert list(cgroups.places(own, (root,))) == []


def test_a_cgroup_has_the_limits_of_the_room(tmp_path: Path) -> None:
    place = _cgroup(tmp_path, "memory pids")
    cgroups.move_in(place, Room(Path("/tmp/attnsuite-of-mine"), memory=5 << 20))
    made = place / "attnsuite-of-mine"
    assert (made / "memory.max").read_text() == f"{5 << 20}"
    assert (made / "pids.max").read_text() == f"{limits.PROCESSES_LIMIT}"
    assert (made / cgroups.PROCESSES).read_text() == "0"
    with pytest.raises(FileExistsError):
        cgroups.move_in(place, Room(Path("/tmp/attnsuite-of-mine")))


def test_where_no_cgroup_was_delegated_the_line_says_so() -> None:
    is_there = next(cgroups.places(), None) is not None
    assert is_there or "all its processes together" in in_short(found_elsewhere())
