"""Print the sandbox of this machine, in words or, with --names, as JSON."""

import json
import signal
import sys

from attnsuite.worker.sandbox import available, in_words

if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a process that ignores it cannot wait for its children
    print(json.dumps(available()) if sys.argv[1:] == ["--names"] else in_words(available()))
