"""Signatures of other libraries: recognised, adapted to the contract's own call, and named in messages."""

from __future__ import annotations

from attnsuite.registry.signatures.layout import Adapter, OtherAdapter, in_contract_signature, with_layout
from attnsuite.registry.signatures.recognition import AmbiguousSignature, recognise, recognise_other
from attnsuite.registry.signatures.signature import OWN, SIGNATURES_OF, Signature, SignatureCall, names, signature
from attnsuite.registry.signatures.translation import in_signature, recognition_note

__all__ = [
    "OWN",
    "SIGNATURES_OF",
    "Adapter",
    "AmbiguousSignature",
    "OtherAdapter",
    "Signature",
    "SignatureCall",
    "in_contract_signature",
    "in_signature",
    "names",
    "recognise",
    "recognise_other",
    "recognition_note",
    "signature",
    "with_layout",
]
