#!/usr/bin/env bash
# Test and time attention on a GPU machine in one call, from a plain checkout, and pack the results for committing.
#
#     scripts/gpu.sh gpu-results.tar.gz
#
# A part that fails or exceeds its time does not stop the next one. The archive has `results/` with a folder of this
# machine, and `log.txt` with the output of every part. Unpack it in a checkout and commit the folder.
set -u
archive=$(realpath -m "${1:?usage: scripts/gpu.sh ARCHIVE.tar.gz}")
device=${DEVICE:-cuda}
targets=${TARGETS:-attention/*}
left_out=${EXCEPT-attention/loops attention/einsum_numpy attention/torch_sdpa.automatic attention/torch_sdpa.math}
seconds=${SECONDS_IN_ALL:-530} # ten minutes, less what the machine needs to start and to send the archive
end=$(($(date +%s) + seconds))
python=${PYTHON:-python3}
cd "$(dirname "$0")/.." || exit 2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0

# part LIMIT COMMAND…: run a part; after LIMIT seconds it is interrupted, which stores its rows, and is killed 20 s later
part() {
    local limit=$1 left=$((end - $(date +%s)))
    shift
    if ((left < 5)); then
        echo "== skipped, no time is left: $*" | tee -a "$out/log.txt"
        failed=1
        return
    fi
    echo "== $*" | tee -a "$out/log.txt"
    timeout --signal=INT --kill-after=20 $((limit < left ? limit : left)) "$@" 2>&1 | tee -a "$out/log.txt"
    local status=${PIPESTATUS[0]}
    echo "== status $status" | tee -a "$out/log.txt"
    ((status == 0)) || failed=1
}

results=(--results "$out/results")
except=()
for name in $left_out; do except+=(--except "$name"); done
set -f # patterns in targets are the suite's, not the shell's
if [[ $device != cpu ]]; then part 10 nvidia-smi; fi
part 30 "$python" -m attnsuite.worker.sandbox
part 90 "$python" -m attnsuite check attention/triton_fused --device "$device" --case plain --case causal "${results[@]}"
# cuDNN reads gradients with the strides of an earlier call on an H100: the second case is wrong after the first.
queries=(--case gradients/coherent_queries --case gradients/many_queries)
part 40 "$python" -m attnsuite check "attention/torch_sdpa.*" --device "$device" "${queries[@]}" "${results[@]}"
part 500 "$python" -m attnsuite run $targets --device "$device" "${except[@]}" "${results[@]}"
end=$((end + 30)) # pages of what was measured, also where the time is up
part 60 "$python" -m attnsuite report "${results[@]}"
tar -czf "$archive" -C "$out" . || exit 2
echo "packed: $archive"
exit $failed
