"""Records → pages → files and lines; runs nothing."""

from __future__ import annotations

from attnsuite.report.browser.files import write_report as write_report
from attnsuite.report.browser.past import past as past
from attnsuite.report.index import refuse_foreign_index as refuse_foreign_index
from attnsuite.report.index import write_index as write_index
from attnsuite.report.machine import write_machine as write_machine
from attnsuite.report.summary import benchmark_lines as benchmark_lines
from attnsuite.report.summary import summary_lines as summary_lines
