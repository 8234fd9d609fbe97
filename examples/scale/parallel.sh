#!/bin/sh
# All shards on the GPUs of this machine, one per GPU at a time: GNU parallel's {%} is the number of the free slot.
# `parallel --sshloginfile nodes.txt --workdir "$PWD"` does the same on several machines that share this folder.
set -eu
: "${COMMAND:=bench mine.py --device cuda}" "${SHARDS:=8}" "${GPUS:=2}"

status=0
seq "$SHARDS" | parallel -j "$GPUS" \
  "CUDA_VISIBLE_DEVICES=\$(({%} - 1)) attnsuite $COMMAND --shard {}/$SHARDS --results shards" || status=$?
attnsuite report shards --results results
exit "$status"
