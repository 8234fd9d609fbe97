"""Implementations that ship: a folder per contract, a file per implementation."""
