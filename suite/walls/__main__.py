"""Says which walls this machine has: in words, or with --names as JSON."""

from __future__ import annotations

import json
import sys

from attnsuite.walls import available, in_words

if __name__ == "__main__":
    print(json.dumps(available()) if sys.argv[1:] == ["--names"] else in_words(available()))
