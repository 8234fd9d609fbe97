"""Starts two processes, one of them in a session of its own, and a thread when it is imported."""

import subprocess
import threading
import time

child = subprocess.Popen(["sleep", "600"])
subprocess.Popen(["sleep", "600"], start_new_session=True)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def attention(query, key, value, *, attn_mask=None):
    return value + child.pid
