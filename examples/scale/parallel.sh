#!/bin/sh
# All shards on the GPUs of this machine, one at a time on each: GNU parallel's {%} is the number of the slot that is free.
# `parallel --sshloginfile nodes.txt --workdir "$PWD"` does the same on several machines that share this folder.
set -eu
: "${ASK:=bench mine.py --device cuda}" "${SHARDS:=8}" "${GPUS:=2}"

status=0
seq "$SHARDS" | parallel -j "$GPUS" \
  "CUDA_VISIBLE_DEVICES=\$(({%} - 1)) attnsuite $ASK --shard {}/$SHARDS --results shards" || status=$?
attnsuite report shards --results results
exit "$status"
