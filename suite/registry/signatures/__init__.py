"""Signatures of other libraries: recognised, adapted to the contract's own call, and named in messages."""

from attnsuite.registry.signatures.layout import Adapter as Adapter
from attnsuite.registry.signatures.layout import in_contract_signature as in_contract_signature
from attnsuite.registry.signatures.layout import with_layout as with_layout
from attnsuite.registry.signatures.recognition import AmbiguousSignature as AmbiguousSignature
from attnsuite.registry.signatures.recognition import recognise as recognise
from attnsuite.registry.signatures.recognition import recognise_other as recognise_other
from attnsuite.registry.signatures.signature import OWN as OWN
from attnsuite.registry.signatures.signature import SIGNATURES_OF as SIGNATURES_OF
from attnsuite.registry.signatures.signature import Signature as Signature
from attnsuite.registry.signatures.signature import SignatureCall as SignatureCall
from attnsuite.registry.signatures.signature import names as names
from attnsuite.registry.signatures.signature import signature as signature
from attnsuite.registry.signatures.translation import in_signature as in_signature
from attnsuite.registry.signatures.translation import recognition_note as recognition_note
