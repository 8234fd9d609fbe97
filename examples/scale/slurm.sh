#!/bin/bash
#SBATCH --job-name=attnsuite
#SBATCH --array=1-8
#SBATCH --exclusive
#SBATCH --time=02:00:00
#SBATCH --requeue
#
#   job=$(sbatch --parsable slurm.sh)
#   sbatch --dependency=afterany:"$job" --wrap "attnsuite report shards --results results"
#
# A killed shard resumes: `sbatch --array=3,7 slurm.sh` runs two of them again.
set -eu
: "${COMMAND:=bench mine.py}"
: "${SHARDS:=8}" # all shards, not those of this job

attnsuite $COMMAND --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" --results shards
