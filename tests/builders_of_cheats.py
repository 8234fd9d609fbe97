"""Audits of cheats, as records."""

from attnsuite.model import Exploit, ExploitAudit, ExploitTrial

HONEST = Exploit("honest", "control", "PyTorch's own attention.", "passes", "measured")
HALVED = Exploit("clock|halved", "the clock", "Halves the clock.", "passes", "caught")


def an_audit(held: bool = True) -> ExploitAudit:
    """One with an honest control, and a cheat that got its verdict or did not."""
    return ExploitAudit(
        [
            ExploitTrial(HONEST, "check", "passes all 3", True),
            ExploitTrial(HONEST, "bench", "measured", True),
            ExploitTrial(HALVED, "check", "passes all 3", True),
            ExploitTrial(HALVED, "bench", "refused: it claims 1 s" if held else "measured \x1b[2J<b>", held),
        ],
        seconds=12.0,
    )
