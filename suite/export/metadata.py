"""What a graph says of itself: whose it is, what it computes, with what it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attnsuite import machine
from attnsuite.export.exporter import Exporter

PRODUCER = "attnsuite"
LICENCE = "graph: BSD-3-Clause; weights: that of who made them"
"""attnsuite's own licence goes with what it writes; of weights from a file it knows none."""
MAKERS = ("torch", "onnx", "onnxscript")
"""The libraries that a graph was made with."""


def labelled(model: Any, found: Exporter, config: Mapping[str, Any], part: str, made: Mapping[str, str]) -> None:
    """Write producer, version and entries by name into a graph. `made` is whose it is and how it was made."""
    versions = machine.versions()
    model.producer_name, model.producer_version = PRODUCER, versions.get(PRODUCER, "")
    model.doc_string = f"{found.declaration.contract}, {part}: {found.exports.parts[part]}."
    model.graph.name = found.declaration.contract
    entries = {
        "contract": found.declaration.contract,
        "part": part,
        "config": json.dumps(dict(config)),
        **made,
        "licence": LICENCE,
        "made with": ", ".join(f"{name} {versions[name]}" for name in MAKERS if name in versions),
    }
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)
