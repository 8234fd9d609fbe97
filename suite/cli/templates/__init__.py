"""Files to begin an implementation with: they run at once, and hold the contract's words as comments."""

from attnsuite.cli.templates.written import written

__all__ = ["written"]
