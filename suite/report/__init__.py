"""Records → tables; runs nothing."""

from __future__ import annotations

from suite.report.benchmark.page import write_benchmark as write_benchmark
from suite.report.charts.files import Charts as Charts
from suite.report.charts.files import write_charts as write_charts
from suite.report.conformance.features import ContractFacts as ContractFacts
from suite.report.conformance.page import write_conformance as write_conformance
from suite.report.index import write_index as write_index
from suite.report.terminal import benchmark_lines as benchmark_lines
from suite.report.terminal import summary_lines as summary_lines
