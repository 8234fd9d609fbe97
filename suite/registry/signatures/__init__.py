"""Signatures of the field: attention as other libraries' functions take it, led back to the contract's own call."""

from __future__ import annotations

from attnsuite.registry.signatures.adapted import Adapted, adapted, laid
from attnsuite.registry.signatures.catalogue import OWN, SIGNATURES_OF, names, signature
from attnsuite.registry.signatures.recognition import Ambiguous, recognised
from attnsuite.registry.signatures.said import in_signature, introduction
from attnsuite.registry.signatures.signature import Question, Signature

__all__ = [
    "OWN",
    "SIGNATURES_OF",
    "Adapted",
    "Ambiguous",
    "Question",
    "Signature",
    "adapted",
    "in_signature",
    "introduction",
    "laid",
    "names",
    "recognised",
    "signature",
]
