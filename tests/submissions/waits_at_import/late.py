"""Is imported when the kernel beside it is called."""
