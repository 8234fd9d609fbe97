"""Runs on disk: rows in and out of results/, comparison of two runs, history over runs."""
