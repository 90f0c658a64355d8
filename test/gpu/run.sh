#!/bin/sh
# Checks and measures the CUDA device on this machine, then engines with peers in Python. Part by part: what fails is
# written down, and the next part begins.
# Usage: test/gpu/run.sh [RESULT_FILE]. Lines of JSON on stdout as they come; RESULT_FILE has all of them as one JSON
# object. The exit code is 0 when every part was well; whether what must hold holds is told by the last line.
# Needs g++ and the NVIDIA driver; for the rest python3, and Node and its packages: those of this checkout, or
# build/gpu-run.tar.xz (see pack.sh); for the demonstration torch. No network. What lacks is said and left out.
# KVTIER_CUDA_LIBRARY names another driver, KVTIER_GPU_MIB the bytes that the checks move (256; 0 leaves them out),
# KVTIER_GPU_SECONDS the longest run of all (540), KVTIER_GPU_PEERS the flags of peer/run.py (`none` leaves the peers out).
set -u
cd "$(dirname "$0")/../.." || exit 2
result=${1:-/dev/null}
library=${KVTIER_CUDA_LIBRARY:-}
mib=${KVTIER_GPU_MIB:-256}
peers=${KVTIER_GPU_PEERS:---l0-size 4GiB --chunks 16 --demo llama-3.1-8b,8192}
started=$(date +%s)
deadline=$((started + ${KVTIER_GPU_SECONDS:-540}))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: >"$folder/lines"
failed=0
node=node_modules/.bin/node

say() { echo "$1" | tee -a "$folder/lines"; }
skip() { say "{\"part\":\"$1\",\"skipped\":\"$2\"}"; }

# part NAME SECONDS COMMAND...: its lines go to stdout and to the result as they come.
part() {
  name=$1
  limit=$2
  shift 2
  left=$((deadline - $(date +%s)))
  if [ "$left" -lt 5 ]; then
    skip "$name" 'no time is left'
    failed=1
    return
  fi
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  echo "gpu run: $name, $(($(date +%s) - started)) s after the start, ${limit} s at most" >&2
  { timeout -k 5 "$limit" "$@"; echo $? >"$folder/code"; } | tee -a "$folder/lines"
  code=$(cat "$folder/code")
  say "{\"part\":\"$name\",\"exitCode\":$code,\"atSeconds\":$(($(date +%s) - started))}"
  if [ "$code" != 0 ]; then failed=1; fi
}

quote() { tr -d '"\\' | tr '\n\t' '  '; }
gpu=$( (nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader 2>/dev/null || echo none) | quote)
shm=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
say "{\"machine\":{\"date\":\"$(date -u +%Y-%m-%dT%H:%MZ)\",\"gpu\":\"$gpu\",\"kernel\":\"$(uname -rm | quote)\",\"processors\":$(nproc),\"shmFreeKiB\":${shm:-0},\"commit\":\"$(git rev-parse --short HEAD 2>/dev/null || echo unknown)\"}}"

check=$folder/check
if [ "$mib" != 0 ]; then
  own=src/native/addon/cuda
  # shellcheck disable=SC2046,SC2086 # names and flags without spaces
  part build 120 g++ -std=c++17 ${CXXFLAGS:--O2} -pthread -I $own -I test/gpu test/gpu/*.cc $(ls $own/*.cc | grep -v binding) -o "$check" -ldl
  for one in driver:40 bytes:90 rates:110 register:40 queues:40 peers:60; do
    part "${one%:*}" "${one#*:}" "$check" "${one%:*}" "$library" "$mib"
  done
fi

if [ ! -x $node ] && [ -f build/gpu-run.tar.xz ]; then
  tar -xJf build/gpu-run.tar.xz 2>/dev/null ||
    python3 -c 'import tarfile; tarfile.open("build/gpu-run.tar.xz").extractall()'
fi
if [ ! -x $node ]; then
  skip engines 'there is no Node here, and no build/gpu-run.tar.xz'
elif [ "$peers" != none ]; then
  part thread-cost 60 $node test/gpu/thread-cost.ts "$library"
  if command -v python3 >/dev/null; then
    # shellcheck disable=SC2086 # flags, separated by spaces
    part engines 300 python3 test/gpu/peer/run.py --library "$library" $peers
    part torch 60 python3 test/gpu/peer/torch_handle.py "$library"
  else
    skip engines 'there is no python3 here'
  fi
fi

if [ "$mib" != 0 ]; then
  if ! command -v compute-sanitizer >/dev/null; then
    skip sanitizer 'there is no compute-sanitizer here'
  else
    for tool in memcheck racecheck synccheck; do
      part "sanitizer-$tool" 60 compute-sanitizer --tool $tool --error-exitcode 9 --log-file "$folder/$tool" "$check" bytes "$library" 4
      tail -n 3 "$folder/$tool" >&2
    done
  fi
  # Last: the error is real, and what other processes then see of the device is unknown.
  part loss 40 "$check" loss "$library"
fi

held=$(grep -c '"must":.*"holds":true' "$folder/lines")
must=$(grep -c '"must":' "$folder/lines")
if [ "$failed" = 0 ]; then fine=true; else fine=false; fi
say "{\"fine\":$fine,\"held\":$held,\"of\":$must,\"seconds\":$(($(date +%s) - started))}"
# A part that was cut off may have left half a line.
{ echo '{"lines":['; grep '^{.*}$' "$folder/lines" | sed '$!s/$/,/'; echo ']}'; } >"$result"
exit "$failed"
