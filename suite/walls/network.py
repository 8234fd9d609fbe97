"""A network namespace: it has no network, not even the machine's own address."""

from __future__ import annotations

from suite.walls.system import NEW_NETWORK
from suite.walls.wall import Keeps, Wall

WALL = Wall("network namespace", frozenset({Keeps.NETWORK}), namespaces=NEW_NETWORK)
