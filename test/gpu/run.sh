#!/bin/sh
# Checks and measures the CUDA device on this machine: needs g++ and the NVIDIA driver; no Node, no network.
# Usage: test/gpu/run.sh [RESULT_FILE]. Lines of JSON, also on stdout; the exit code is 0 when all is well.
# KVTIER_CUDA_LIBRARY names another driver, KVTIER_GPU_MIB the bytes moved (256), KVTIER_GPU_SECONDS the longest run (500).
set -eu
cd "$(dirname "$0")/../.."
result=${1:-/dev/null}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
own=src/native/addon/cuda
sources=$(ls $own/*.cc | grep -v binding)
g++ -std=c++17 -O2 -pthread -I $own -I test/gpu test/gpu/*.cc $sources -o "$folder/check" -ldl
code=0
timeout "${KVTIER_GPU_SECONDS:-500}" "$folder/check" "${KVTIER_CUDA_LIBRARY:-}" "${KVTIER_GPU_MIB:-256}" >"$folder/lines" || code=$?
cat "$folder/lines" | tee "$result"
exit "$code"
