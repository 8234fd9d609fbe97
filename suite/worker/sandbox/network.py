"""A network namespace: it has no network, not even the machine's own address."""

from __future__ import annotations

from attnsuite.worker.sandbox.system import NEW_NETWORK
from attnsuite.worker.sandbox.wall import Keeps, Wall

WALL = Wall("network namespace", frozenset({Keeps.NETWORK}), namespaces=NEW_NETWORK)
