"""Conformance of the kernel to the contract `attention`, with expected failures."""

from pathlib import Path

from tiled_attention import attention

from attnsuite.pytest_plugin import conformance

test_attention = conformance(attention, xfails=Path(__file__).parent.parent / "xfails.txt")
