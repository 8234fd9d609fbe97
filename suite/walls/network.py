"""A network namespace: it has no network, not even the machine's own address."""

from __future__ import annotations

from attnsuite.walls.system import NEW_NETWORK
from attnsuite.walls.wall import Keeps, Wall

WALL = Wall("network namespace", frozenset({Keeps.NETWORK}), namespaces=NEW_NETWORK)
