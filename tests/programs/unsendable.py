"""A service whose answers cannot cross, in a process that takes its time to end."""

import atexit
import time


def begin():
    atexit.register(time.sleep, 2.5)
    return lambda function, device: lambda verb, arguments: object()
