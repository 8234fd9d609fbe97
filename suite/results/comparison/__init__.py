"""Two sides, what changed between them, and which differences are larger than those between runs of the same code."""
