"""Root's capabilities are given up: without them root, too, reads no process that still has them."""

from __future__ import annotations

import ctypes

from attnsuite.worker.sandbox.system import NO_NEW_PRIVILEGES, function, prctl
from attnsuite.worker.sandbox.wall import Room, Wall

VERSION_3 = 0x20080522
"""The layout of the two structures below."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _within(room: Room) -> None:
    """Give up all capabilities, and have no program give them back."""
    prctl(NO_NEW_PRIVILEGES, 1)
    none = (ctypes.c_uint32 * 6)()
    function("capset", ctypes.byref(_Header(VERSION_3, 0)), ctypes.byref(none))


WALL = Wall("no capabilities", frozenset(), within=_within)
