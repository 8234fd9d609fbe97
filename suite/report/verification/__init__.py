"""Pages, tables and charts held against what the rows give: rendered again, they must be the same, byte by byte."""

from __future__ import annotations

from suite.report.verification.of_machine import Pages as Pages
from suite.report.verification.of_machine import of_machine as of_machine
from suite.report.verification.of_results import of_results as of_results
