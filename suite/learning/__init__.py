"""Models that learn: tasks, the engine that trains them, checkpoints, data."""
