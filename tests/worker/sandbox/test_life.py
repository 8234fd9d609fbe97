"""A process dies with its parent, also with one that was gone before it looked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import time

from attnsuite.worker.sandbox.life import die_with_the_parent

die_with_the_parent(int(sys.argv[1]))
print("it lives", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's alone")
@pytest.mark.parametrize("gone_before", [True, False])
def test_a_process_ends_when_nobody_holds_its_life(gone_before: bool) -> None:
    life, held = os.pipe()
    if gone_before:
        os.close(held)
    command = [sys.executable, "-c", PROGRAM, str(life)]
    with subprocess.Popen(command, pass_fds=[life], stdout=subprocess.PIPE, start_new_session=True) as process:
        os.close(life)
        assert process.stdout is not None
        said = process.stdout.readline()
        if not gone_before:
            os.close(held)
        ended = process.wait(timeout=60)

    assert (ended, said) == (-signal.SIGKILL, b"" if gone_before else b"it lives\n")
