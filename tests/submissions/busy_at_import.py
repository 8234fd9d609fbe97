"""Starts a process and a thread when it is imported."""

import subprocess
import threading
import time

child = subprocess.Popen(["sleep", "600"])
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def attention(query, key, value, *, attn_mask=None):
    return value + child.pid
