"""Records → pages → files and lines; runs nothing."""

from __future__ import annotations

from suite.report.browser.files import write_report as write_report
from suite.report.browser.past import past as past
from suite.report.index import refuse_foreign_index as refuse_foreign_index
from suite.report.index import write_index as write_index
from suite.report.machine import write_machine as write_machine
from suite.report.summary import benchmark_lines as benchmark_lines
from suite.report.summary import summary_lines as summary_lines
