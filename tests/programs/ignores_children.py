"""Ignores what becomes of its children, and prints how a worker ended."""

import signal
import sys

from workers import call

from attnsuite.worker.worker import Worker

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with Worker(sys.argv[1]) as worker:
    print(worker.run_calls([call("exits")]).how)
