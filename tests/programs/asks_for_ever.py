"""Asks a submission that never answers; prints the numbers of the worker and of the process that it was forked from."""

import sys

import psutil
from workers import call

from attnsuite.worker.worker import Worker

worker = Worker(sys.argv[1])
worker.ready()
print(worker.pid, psutil.Process(worker.pid).ppid(), flush=True)
worker.run_calls([call("loops")])
