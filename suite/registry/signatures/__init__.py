"""Signatures of the field: attention as other libraries' functions take it, led back to the contract's own call."""

from __future__ import annotations

from attnsuite.registry.signatures.adapter import Adapter, in_contract_signature, with_layout
from attnsuite.registry.signatures.catalogue import OWN, SIGNATURES_OF, names, signature
from attnsuite.registry.signatures.recognition import AmbiguousSignature, recognise
from attnsuite.registry.signatures.signature import AttentionCall, Signature
from attnsuite.registry.signatures.translation import in_signature, recognition_note

__all__ = [
    "OWN",
    "SIGNATURES_OF",
    "Adapter",
    "AmbiguousSignature",
    "AttentionCall",
    "Signature",
    "in_contract_signature",
    "in_signature",
    "names",
    "recognise",
    "recognition_note",
    "signature",
    "with_layout",
]
