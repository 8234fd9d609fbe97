"""The entry point: runs the command line, and prints in one line why a request cannot be carried out."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import io
import os
import re
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path

import typer

from attnsuite.cli.app import COMMANDS, application
from attnsuite.cli.ending import CANNOT, INTERRUPTED, TERMINATED
from attnsuite.model import UsageError, escaped

app = application()

NOT_UNDERSTOOD: type[Exception] = typer.BadParameter.__bases__[0]
"""The base class of all errors that typer raises for a command line."""
WRITE_ERRORS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE, errno.EBADF, errno.EIO))
"""The errors of a write to a file that is open already. Python does not say which file it was."""
NEW_OBJECTS = 20_000
"""Number of new objects after which Python searches for cycles; its default is 700. PyTorch's import creates half a
million objects that all stay, so the default would search them many times."""
CODE = "    "
"""The indentation of code in a message."""
LONGEST_WORD = 300
"""Characters of one word of a message that are printed; paths are shorter, and the line stays readable."""


def run() -> None:
    """Run the command line in a process that ends with it."""
    status: list[int] = []
    atexit.register(_leave, status)  # registered first, so it runs after all that others register
    prepare_streams()
    try:
        main()
    except SystemExit as ended:
        status += [ended.code] if isinstance(ended.code, int) else []
        raise


def _leave(status: list[int]) -> None:
    """End the process with its status at once; Python would spend a tenth of a second on destroying PyTorch.

    Without a status, or if output cannot be written, Python ends the process and reports the error.
    """
    gc.freeze()  # else it looks for cycles in all of PyTorch, for half a second
    with suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        for known in status:
            os._exit(known)


def main() -> None:
    """Run the command line; a request that cannot be carried out is one line and exit status 2."""
    gc.set_threshold(NEW_OBJECTS)
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # inherited; such a process cannot wait for its children
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = None
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
        refuse(f"a library cannot be imported: {why}; install it again, or raise `ulimit -v` where memory is limited")
    except MemoryError:
        refuse("memory ran out; raise `ulimit -v` where memory is limited")
    except OSError as error:
        _refuse_system_error(error)
    if status in (INTERRUPTED, TERMINATED):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another one would only break into the end of libraries
        print("attnsuite: interrupted", file=sys.stderr)
    sys.exit(status or 0)


def refuse(why: str) -> None:
    """Print in one line why a request cannot be carried out, and exit. Indented code after an empty line is kept."""
    line, _, code = why.partition("\n\n")
    lines = code.splitlines()
    if not all(text.startswith(CODE) for text in lines):
        line, lines = why, []
    print(f"attnsuite: {in_one_line(line)}", *map(escaped, lines), sep="\n", file=sys.stderr)
    sys.exit(CANNOT)


def _refuse_system_error(error: OSError) -> None:
    """Print which file an error of the operating system is about, and exit with CANNOT."""
    why = error.strerror or str(error)
    if error.filename is not None:
        refuse(f"cannot access {os.fsdecode(error.filename)}: {why}")
    if error.errno not in WRITE_ERRORS:
        refuse(why)
    print(f"attnsuite: cannot write to standard output or an open file: {why}", file=sys.stderr)
    os._exit(CANNOT)  # the interpreter would try to flush it again


def in_one_line(text: str) -> str:
    """A message as one line that cannot command a terminal: unprintable characters are escaped, long words are cut."""
    words = (word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…" for word in text.split())
    return escaped(" ".join(words))


def _not_understood(error: Exception) -> str:
    """Typer's message, and which command prints the help."""
    message: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = " ".join(["attnsuite", *(name for name in sys.argv[1:2] if name in COMMANDS)])
    message = (message[:1].lower() + message[1:]).rstrip(".?").replace(". Did you mean", "; did you mean")
    return f"{message}; {_hint(message, context)}see `{command} --help`"


def _hint(message: str, context: typer.Context | None) -> str:
    """A hint at --results where a folder is named without it and the subcommand takes no such argument."""
    extra = re.search(r"unexpected extra argument\S* \((?P<word>.+)\)", message)
    takes = {word for parameter in (context.command.params if context else ()) for word in parameter.opts}
    if not extra or "--results" not in takes or not Path(extra["word"]).is_dir():
        return ""
    return f"did you mean --results {shlex.quote(extra['word'])}? "


ASCII_ERRORS = "attnsuite-ascii"
"""The name of the codec error handler that substitutes characters which an encoding lacks."""
SUBSTITUTES = {"×": "x", "√": "sqrt ", "−": "-", "–": "-", "…": "...", "→": "->", "·": "*", "≤": "<=", "±": "+-"}
"""ASCII for the most frequent characters of messages. Others are escaped with a backslash."""


def prepare_streams() -> None:
    """Open closed standard streams on /dev/null, and let the others write every character."""
    codecs.register_error(ASCII_ERRORS, _substituted)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _null(descriptor))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ASCII_ERRORS)


def _null(descriptor: int) -> io.TextIOWrapper:
    """/dev/null, under the descriptor too unless an open file has it, because child processes write to the number."""
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
    return Path(os.devnull).open("w", encoding="utf-8")


def _substituted(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(SUBSTITUTES.get(character, character) for character in error.object[error.start : error.end])
    return text.encode("ascii", "backslashreplace").decode(), error.end


if __name__ == "__main__":
    run()
