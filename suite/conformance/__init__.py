"""Run tests and turn them into outcomes, diagnose failures, known bugs and expected failures, and audit the suite."""
