"""Is imported by the kernel beside it."""
