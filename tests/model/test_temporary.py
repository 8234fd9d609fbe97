"""Temporary folders go with whoever made them: by being removed, or by being found."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attnsuite.model import temporary

HOLDS = "from attnsuite.model.temporary import make; print(make(), flush=True); input()"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, by this process and by others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def holding(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process, and the folder that it holds."""
    around = {**os.environ, "TMPDIR": str(place)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDS], **pipes, text=True, env=around) as other:  # type: ignore[call-overload]
        yield other, Path(other.stdout.readline().strip())
        other.kill()


def test_a_folder_goes_afterwards_whatever_is_in_it(place: Path) -> None:
    with temporary.temporary("kind-") as folder:
        assert folder.parent == place
        assert folder.name.startswith("attnsuite-kind-")
        (folder / "locked").mkdir()
        (folder / "locked" / "file").touch()
        (folder / "locked").chmod(0)
        assert list(temporary.left_behind()) == []
    assert list(place.iterdir()) == []
    assert folder not in temporary._locks


def test_one_in_use_stays_and_one_of_a_killed_process_is_found(place: Path) -> None:
    with holding(place) as (_, used), holding(place) as (killed, left):
        assert list(temporary.left_behind()) == []
        killed.kill()
        killed.wait()
        (left / "file").touch()
        assert list(temporary.left_behind()) == [left]
        assert list(temporary.left_behind()) == [], "it is held here until it is removed"
        temporary.remove(left)
        assert list(place.iterdir()) == [used]


def test_others_folders_and_links_stay(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place / "attnsuite-old").mkdir()
    (place / "somebody-s.held").mkdir()
    (place / "attnsuite-link.held").symlink_to(elsewhere)
    (place / "attnsuite-file.held").touch()
    assert list(temporary.left_behind()) == []
    assert len(list(place.iterdir())) == 4


def test_another_user_s_folder_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "attnsuite-theirs.held").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert list(temporary.left_behind()) == []


def test_a_folder_is_made_anew_where_it_was_taken_before_it_was_held(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, taken = temporary._lock, []

    def late(folder: Path) -> int | None:
        """Somebody else removes the first, as if nobody held it."""
        if not taken:
            taken.append(folder)
            folder.rmdir()
            folder.mkdir()
            descriptor = os.open(folder, os.O_RDONLY)
            folder.rmdir()
            monkeypatch.setattr(os, "open", lambda *_: descriptor)
        else:
            monkeypatch.undo()
        return hold(folder)

    monkeypatch.setattr(temporary, "_lock", late)
    made = temporary.make()
    assert made.is_dir()
    assert made != taken[0]
    temporary.remove(made)


def test_where_nothing_can_be_held_folders_are_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(folder: Path) -> int | None:
        raise OSError("no locks on this file system")

    monkeypatch.setattr(temporary, "_lock", nothing)
    with temporary.temporary() as folder:
        assert folder.is_dir()
        assert list(temporary.left_behind()) == []
    assert not folder.exists()
