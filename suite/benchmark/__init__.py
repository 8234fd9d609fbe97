"""Implementations × workloads → measurements."""
