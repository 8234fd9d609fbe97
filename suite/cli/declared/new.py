"""`attnsuite new`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from attnsuite.cli.declared.common import signature as signature_named


@dataclass(frozen=True)
class New:
    """Begin an implementation: a file with the contract's words as comments. One of attention runs at once."""

    name: Annotated[
        str, typer.Argument(metavar="NAME", help="of the file that is written, NAME.py; a path to another folder, too")
    ]
    contract: Annotated[
        str, typer.Option("--contract", metavar="C", help="what it is to compute; attention by default")
    ] = "attention"
    signature: Annotated[
        str | None,
        typer.Option(
            "--signature",
            metavar="S",
            parser=signature_named,
            help="the library whose signature it has; sdpa is the default",
        ),
    ] = None

    def run(self) -> None:
        from attnsuite.cli import beginning

        beginning.begin(self.name, self.contract, self.signature or "")
