"""The submitter's room: a folder per contract, a file per implementation."""
