"""Pages, tables and charts held against what the rows give: rendered again, they must be the same, byte by byte."""

from __future__ import annotations

from attnsuite.report.verification.index import of_results as of_results
from attnsuite.report.verification.pages import Pages as Pages
from attnsuite.report.verification.pages import of_machine as of_machine
