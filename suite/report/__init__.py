"""Records → tables; runs nothing."""

from __future__ import annotations

from suite.report.conformance import write_conformance as write_conformance
from suite.report.features import ContractFacts as ContractFacts
from suite.report.index import write_index as write_index
from suite.report.terminal import summary_lines as summary_lines
