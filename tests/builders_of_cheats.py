"""Audits of cheats, as records."""

from __future__ import annotations

from attnsuite.model import Cheat, CheatsAudit, Trial

HONEST = Cheat("honest", "control", "PyTorch's own attention.", "passes", "measured")
HALVED = Cheat("clock|halved", "the clock", "Halves the clock.", "passes", "caught")


def an_audit(held: bool = True) -> CheatsAudit:
    """One with an honest control, and a cheat that got its verdict or did not."""
    return CheatsAudit(
        [
            Trial(HONEST, "check", "passes all 3", True),
            Trial(HONEST, "bench", "measured", True),
            Trial(HALVED, "check", "passes all 3", True),
            Trial(HALVED, "bench", "refused: it claims 1 s" if held else "measured \x1b[2J<b>", held),
        ],
        seconds=12.0,
    )
