"""The entry point: runs the command line, and says in one line what cannot be carried out."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from attnsuite.cli import streams
from attnsuite.cli.app import application
from attnsuite.cli.interrupting import INTERRUPTED, TERMINATED
from attnsuite.model import UsageError, escaped

app = application()

NOT_UNDERSTOOD: type[Exception] = typer.BadParameter.__bases__[0]
"""What typer raises for a command line that it cannot read: what all its refusals have in common."""
CANNOT = 2
"""The exit status of a request that cannot be carried out."""
NOT_WRITTEN = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE, errno.EBADF, errno.EIO))
"""The errors of a write to a file that is open already. Python does not say which file it was."""
NEW_OBJECTS = 20_000
"""How many more objects there are before Python looks for cycles among the new ones; by default 700. PyTorch's import
alone makes half a million, all of which stay, and Python would look through them again and again."""
CODE = "    "
"""How lines of code begin in a message."""
LONGEST_WORD = 300
"""Characters of a word that are shown of a message: a path is shorter, and a line stays one that can be read."""


def run() -> None:
    """Run the command line in a process that ends with it."""
    status: list[int] = []
    atexit.register(_leave, status)  # registered first and called last, after all that others registered meanwhile
    streams.prepare()
    try:
        main()
    except SystemExit as ended:
        status += [ended.code] if isinstance(ended.code, int) else []
        raise


def _leave(status: Sequence[int]) -> None:
    """End the process with its status at once: Python would take all of PyTorch apart first, for a tenth of a second.

    Where the status is not known yet, or output cannot be written, it is left to Python to say so.
    """
    gc.freeze()  # else it looks for cycles in all of PyTorch, for half a second
    with suppress(OSError, ValueError):
        for each in filter(None, (sys.stdout, sys.stderr)):  # one that was closed before is none
            each.flush()
        for known in status:
            os._exit(known)


def main() -> None:
    """Run the command line; a request that cannot be carried out is one line and exit status 2."""
    gc.set_threshold(NEW_OBJECTS)
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # inherited; such a process cannot wait for its children
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="attnsuite", standalone_mode=False)
    except UsageError as error:
        refuse(str(error))
    except NOT_UNDERSTOOD as error:
        refuse(_not_understood(error))
    except ImportError as error:
        if (error.name or "").partition(".")[0] == UsageError.__module__.partition(".")[0]:
            raise
        why = str(error).strip().rpartition("\n")[2]
        refuse(f"a library cannot be imported: {why}; install it anew, or raise `ulimit -v` where memory is limited")
    except MemoryError:
        refuse("memory ran out; raise `ulimit -v` where memory is limited")
    except OSError as error:
        _refuse_as_the_system_does(error)
    if status in (INTERRUPTED, TERMINATED):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it came: another one would only break into what ends libraries
        print("attnsuite: interrupted", file=sys.stderr)
    sys.exit(status or 0)


def refuse(why: str) -> None:
    """Say in one line why a request is not carried out, and end. Code below an empty line, indented, stays as it is."""
    says, _, code = why.partition("\n\n")
    lines = code.splitlines()
    if not all(line.startswith(CODE) for line in lines):
        says, lines = why, []
    print(f"attnsuite: {in_one_line(says)}", *map(escaped, lines), sep="\n", file=sys.stderr)
    sys.exit(CANNOT)


def _refuse_as_the_system_does(error: OSError) -> None:
    """Print which file an error of the operating system is about, and end with CANNOT."""
    why = error.strerror or str(error)
    if error.filename is not None:
        refuse(f"cannot access {os.fsdecode(error.filename)}: {why}")
    if error.errno not in NOT_WRITTEN:
        refuse(why)
    print(f"attnsuite: cannot write to standard output or an open file: {why}", file=sys.stderr)
    os._exit(CANNOT)  # the interpreter would try to flush it again


def in_one_line(text: str) -> str:
    """A message as one line that cannot command a terminal: what is not printable is escaped, long words are cut."""
    words = (word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…" for word in text.split())
    return escaped(" ".join(words))


def _not_understood(error: Exception) -> str:
    """What typer says of a command line, and where to read what there is."""
    says: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    where = "attnsuite" if context is None else context.command_path
    return f"{says.rstrip('.?')}; {_meant(says, context)}`{where} --help` shows what there is"


def _meant(says: str, context: typer.Context | None) -> str:
    """A hint at --results where a folder is named without it, and the subcommand takes nothing else."""
    found = re.search(r"unexpected extra argument\S* \((?P<word>.+)\)", says)
    takes = {option for each in (context.command.params if context else ()) for option in each.opts}
    if not found or "--results" not in takes or not Path(found["word"]).is_dir():
        return ""
    return f"did you mean --results {shlex.quote(found['word'])}? "


if __name__ == "__main__":
    run()
