"""Forks runs of pytest from a process that has imported PyTorch and nothing else of theirs: an import costs seconds.

A line of JSON says what to run, and where its output goes; its exit status is answered in a line.
"""

import json
import os
import runpy
import sys
import traceback

import torch  # noqa: F401  for all that are forked


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(asked)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(asked: dict[str, object]) -> None:
    """Run pytest as `python -m pytest` would in a process of its own, and end."""
    status = 1
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        outputs = [os.open(str(asked[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("stdout", "stderr")]
        for target, source in enumerate((nothing, *outputs)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(asked["environment"])  # type: ignore[call-overload]
        os.chdir(str(asked["folder"]))
        sys.path[0] = str(asked["folder"])  # where this file's folder stood; the others are those of PYTHONPATH
        sys.argv[:] = ["pytest", *asked["arguments"]]  # type: ignore[misc]
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
