#!/bin/sh
# Checks and measures the CUDA device on this machine, then an engine with peers in Python.
# Usage: test/gpu/run.sh [RESULT_FILE]. Lines of JSON, also on stdout; the exit code is 0 when all is well.
# Needs g++ and the NVIDIA driver; for the peers python3, and Node and its packages: those of this checkout, or
# build/gpu-run.tar.xz (see pack.sh); for the demonstration torch. No network. What lacks is said and left out.
# KVTIER_CUDA_LIBRARY names another driver, KVTIER_GPU_MIB the bytes that the checks move (256; 0 leaves them out),
# KVTIER_GPU_SECONDS their longest run (500), KVTIER_GPU_PEERS the flags of peer/run.py (`none` leaves the peers out).
set -eu
cd "$(dirname "$0")/../.."
result=${1:-/dev/null}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
own=src/native/addon/cuda
sources=$(ls $own/*.cc | grep -v binding)
code=0
: >"$folder/lines"
if [ "${KVTIER_GPU_MIB:-256}" != 0 ]; then
  g++ -std=c++17 -O2 -pthread -I $own -I test/gpu test/gpu/*.cc $sources -o "$folder/check" -ldl
  timeout "${KVTIER_GPU_SECONDS:-500}" "$folder/check" "${KVTIER_CUDA_LIBRARY:-}" "${KVTIER_GPU_MIB:-256}" \
    >"$folder/lines" || code=$?
fi

peers=${KVTIER_GPU_PEERS:---l0-size 4GiB --chunks 16 --demo llama-3.1-8b,8192}
if [ "$peers" != none ]; then
  if [ ! -x node_modules/.bin/node ] && [ -f build/gpu-run.tar.xz ]; then tar -xJf build/gpu-run.tar.xz; fi
  if [ ! -x node_modules/.bin/node ]; then
    echo '{"check":"peers","skipped":"there is no Node here, and no build/gpu-run.tar.xz"}' >>"$folder/lines"
  elif ! command -v python3 >/dev/null; then
    echo '{"check":"peers","skipped":"there is no python3 here"}' >>"$folder/lines"
  else
    # shellcheck disable=SC2086 # flags, separated by spaces
    python3 test/gpu/peer/run.py --library "${KVTIER_CUDA_LIBRARY:-}" $peers >>"$folder/lines" || code=$?
  fi
  if [ "$code" = 0 ]; then echo '{"fine":true}'; else echo '{"fine":false}'; fi >>"$folder/lines"
fi
cat "$folder/lines" | tee "$result"
exit "$code"
