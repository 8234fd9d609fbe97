#!/bin/sh
# All shards on this machine, a few at a time. For `check`; concurrent benchmarks would disturb each other.
set -eu
: "${COMMAND:=check mine.py}" "${SHARDS:=8}" "${AT_ONCE:=4}"

status=0
seq "$SHARDS" | xargs -P "$AT_ONCE" -I{} sh -c "attnsuite $COMMAND --shard {}/$SHARDS --results shards" || status=$?
attnsuite report shards --results results
exit "$status"
