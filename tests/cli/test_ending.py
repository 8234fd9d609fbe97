"""The end of a process: with its status and all output, and without destroying libraries."""

import subprocess
import sys

import pytest
from commanded import environment

from attnsuite.model.words import VERSION

DESTROYED = "# destroy "
"""The beginning of a line that `python -v` prints for each module that it destroys at exit."""
PROGRAM = """
import atexit
import sys

import attnsuite.__main__ as module


def begun(*given, app=module.app, **options):
    atexit.register(print, "exit handlers ran", file=sys.stderr)
    return app(*given, **options)


module.app = begun
sys.argv[1:] = {words}
{before}
module.run()
"""


def ended(words: list[str], before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-v", "-c", PROGRAM.format(words=words, before=before)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


@pytest.mark.parametrize(
    ("words", "status", "said"), [(["--version"], 0, f"attnsuite {VERSION}\n"), (["nosuch"], 2, "")]
)
def test_a_process_ends_with_its_status_without_destroying_modules(words: list[str], status: int, said: str) -> None:
    done = ended(words)

    assert (done.returncode, done.stdout) == (status, said)
    assert "exit handlers ran\n" in done.stderr
    assert DESTROYED not in done.stderr


def test_a_process_that_was_started_with_sigchld_ignored_can_wait_for_its_children() -> None:
    before = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    before += "module.app = lambda *given, **options: print(signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)"

    assert ended(["--version"], before).stdout == "True\n"


@pytest.mark.parametrize(
    ("raises", "says"),
    [
        (
            "ImportError('a page of advice\\nlibtorch.so: failed to map segment')",
            "a library cannot be imported: libtorch.so: failed to map segment; install it again, or raise `ulimit -v` "
            "where memory is limited",
        ),
        ("MemoryError", "memory ran out; raise `ulimit -v` where memory is limited"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_one_line(raises: str, says: str) -> None:
    done = ended(["--version"], f"def app(*given, **options): raise {raises}\nmodule.app = app")

    assert done.returncode == 2
    assert f"attnsuite: {says}\n" in done.stderr
    assert "Traceback" not in done.stderr
