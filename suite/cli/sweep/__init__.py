"""Many shards of `check` and `bench`, started by submitit here or on a Slurm cluster until all are answered."""
