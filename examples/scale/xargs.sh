#!/bin/sh
# All shards on this machine, a few at a time. For `check`: what is timed at once disturbs each other.
set -eu
: "${ASK:=check mine.py}" "${SHARDS:=8}" "${AT_ONCE:=4}"

status=0
seq "$SHARDS" | xargs -P "$AT_ONCE" -I{} sh -c "attnsuite $ASK --shard {}/$SHARDS --results shards" || status=$?
attnsuite report shards --results results
exit "$status"
