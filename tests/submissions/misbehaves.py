"""Misbehaves on demand: the option `mode` says how."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch


def attention(query, key, value, *, mode="value", attn_mask=None, file=""):
    MODES[mode](Path(file))
    return torch.tensor(float(os.environ["ATTNSUITE_TEST"])) if mode == "environment" else value.clone()


def segmentation_fault(_):
    print("these are my last words")
    ctypes.string_at(0)


def loop(_):
    while True:
        pass


def fork(file):
    child = subprocess.Popen(["sleep", "600"])
    file.write_text(str(child.pid))
    os._exit(4)


def fork_and_hold(_):
    """Leaves a child that holds the channel to the suite open."""
    if os.fork() == 0:
        time.sleep(600)
    os._exit(5)


def escape(file):
    """Starts a process in a session of its own, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            file.write_text(str(os.getpid()))
            os.closerange(0, 64)
            time.sleep(600)
        os._exit(0)
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)


def close(_):
    os.closerange(3, 64)
    time.sleep(600)


def garbage_on_stdout(_):
    for stream in (1, 2):
        os.write(stream, b"\x00{}\n" * 100)
    print("{}" * 200_000)


def garbage_on_the_channel(_):
    links = {int(link.name): link for link in Path("/proc/self/fd").iterdir()}
    channel = next(fd for fd, link in links.items() if link.is_symlink() and "socket" in str(link.readlink()))
    os.write(channel, b"\xff" * 64)
    time.sleep(600)


def read_stdin(_):
    if sys.stdin.read():
        raise RuntimeError("there is something to read")


def interrupt(_):
    raise KeyboardInterrupt("mine")


def recurse(file):
    recurse(file)


def start_a_thread_that_exits(_):
    threading.Thread(target=sys.exit).start()


def unknown(_):
    raise ValueError("unknown")


MODES = {
    "value": lambda _: None,
    "environment": lambda _: None,
    "segmentation fault": segmentation_fault,
    "exit": lambda _: os._exit(3),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "loop": loop,
    "fork": fork,
    "fork and hold": fork_and_hold,
    "escape": escape,
    "close": close,
    "garbage on stdout": garbage_on_stdout,
    "garbage on the channel": garbage_on_the_channel,
    "read stdin": read_stdin,
    "interrupt": interrupt,
    "quit": lambda _: sys.exit(7),
    "recurse": recurse,
    "deep thread": start_a_thread_that_exits,
    "unknown": unknown,
}
