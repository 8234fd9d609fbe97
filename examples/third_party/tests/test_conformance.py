"""The kernel keeps the contract of attention, but for the gaps that are written down."""

from pathlib import Path

from tiled_attention import attention

from attnsuite.pytest_plugin import conformance

test_attention = conformance(attention, known_gaps=Path(__file__).parent.parent / "known_gaps.txt")
