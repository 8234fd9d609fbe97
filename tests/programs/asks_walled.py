"""Asks a sandboxed submission for something that it never answers; prints its folder and its supervisor's number."""

import sys

from workers import call

from attnsuite.worker.worker import Worker

worker = Worker(sys.argv[1], sandboxed=True)
worker.ready()
print(worker._process.folder, worker.pid, flush=True)
worker.run_calls([call(sys.argv[2])])
