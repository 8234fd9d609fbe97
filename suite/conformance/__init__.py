"""Tests become outcomes: running, diagnosis of failures, known bugs, expected failures, and the audit of the suite."""
