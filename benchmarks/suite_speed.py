"""How long the suite itself takes, and how much memory: figures to read, not a test."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from attnsuite.registry import discover

COMMANDS = (
    ("--help", ["--help"]),
    ("list", ["list"]),
    ("check of one eager implementation", ["check", "matmul"]),
    ("check of one implementation in its own process", ["check", "matmul", "--isolate"]),
)


def main() -> None:
    """Run each command once in a fresh process and print seconds and peak resident memory."""
    shipped = [declaration.full_name for declaration in discover()]
    everything = ("check of everything but flex", ["check", *(name for name in shipped if name != "attention/flex")])
    for what, arguments in (*COMMANDS, everything):
        seconds, peak, code = measured([sys.executable, "-m", "attnsuite", *arguments])
        print(f"{what:50} {seconds:7.2f} s  {peak / 2**20:6.0f} MiB  exit status {code}", flush=True)


def measured(command: list[str]) -> tuple[float, int, int]:
    """Wall seconds, peak resident bytes of the command or its largest child, and its exit status."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - started, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
