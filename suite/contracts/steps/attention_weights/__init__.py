"""The second step of every attention: from scores to weights that sum to one."""
