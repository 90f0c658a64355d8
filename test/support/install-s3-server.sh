#!/usr/bin/env bash
# Builds the S3 server of the tests, versitygw, into the user's cache, once for each version. It checks signatures,
# takes uploads in parts, and serves buckets by path and by host name. Needs Go; about a minute on two cores.
set -eu
version=v1.8.0
folder="${XDG_CACHE_HOME:-$HOME/.cache}/kvtier/versitygw-$version"
[ -x "$folder/versitygw" ] && exit 0
if ! command -v go >/dev/null; then
  echo 'go is missing: apt-get install golang-go' >&2
  exit 1
fi
mkdir -p "$folder.tmp"
GOBIN="$folder.tmp" GOTOOLCHAIN=auto go install -trimpath -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
rm -rf "$folder"
mv "$folder.tmp" "$folder"
