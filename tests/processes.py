"""Git, and queries of other processes, which may end at any time."""

import os
import subprocess
from pathlib import Path

import psutil


def git(folder: Path, *arguments: str) -> str:
    """The output of git, with a fixed author and no settings of the user's."""
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, **names, **alone},
    )  # fmt: skip
    return done.stdout.strip()


def committed(folder: Path, message: str = "first") -> str:
    """Commit all that is there, in a new repository if there is none, and return the commit."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; empty for a process that ended, reaped or not."""
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words


def is_over(number: int) -> bool:
    """Whether the process does not exist, or is a zombie."""
    try:
        return bool(psutil.Process(number).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def below(number: int) -> list[psutil.Process]:
    """Its running child processes."""
    try:
        children = psutil.Process(number).children()
    except psutil.NoSuchProcess:
        return []
    return [each for each in children if not is_over(each.pid)]


def is_served(number: int) -> bool:
    """Whether a fork server of this process has a child."""
    return any("attnsuite.worker.forkserver" in str(words_of(each)) and below(each.pid) for each in below(number))
