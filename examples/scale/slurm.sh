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
# A shard that was killed goes on where it was: `sbatch --array=3,7 slurm.sh` asks two of them again.
set -eu
: "${ASK:=bench mine.py}"
: "${SHARDS:=8}" # all there are, which is not how many this job has

attnsuite $ASK --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" --results shards
