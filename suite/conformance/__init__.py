"""Implementations and cases in, outcomes out: sessions, the runner, diagnosis, findings and the audit."""
