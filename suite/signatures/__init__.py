"""Signatures of the field: attention as other libraries' functions take it, led back to the contract's own call."""

from __future__ import annotations

from attnsuite.signatures.adapted import Adapted, adapted, laid
from attnsuite.signatures.catalogue import OWN, SIGNATURES_OF, names, signature
from attnsuite.signatures.recognition import Ambiguous, recognised
from attnsuite.signatures.said import in_signature, introduction
from attnsuite.signatures.signature import Question, Signature

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
