"""Mutants of attention that concern no single feature: implementations with exactly one named mistake.

They prove that cases can fail, name the mistake of a wrong submission, and document known bugs. A feature's mutants are
in its file, those of masks in mask.py.
"""

from __future__ import annotations

from attnsuite.cases import Mutant
from attnsuite.cases.contract import mutants_in
from attnsuite.contracts.attention import features
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import Dense, Tiled
from attnsuite.contracts.attention.computation.gradients import Backward

CONTROLS = {f"correct_{kind.__name__.lower()}": as_attention(kind()) for kind in (Dense, Tiled, Backward)}
"""The mutants' own computations without any mistake: all of them must pass."""


OF_FEATURES = mutants_in(features.__name__)
"""The mutants in the features' own files."""


def mutants() -> list[Mutant]:
    """All mutants, of this folder and of the features, sorted by name; names are unique."""
    return mutants_in(__name__)
