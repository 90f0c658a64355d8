#!/bin/sh
# Installs what package-lock.json names, when it is not installed yet, and checks the Node that scripts run on.
# Runs before `npm start` and `npm test`, in any POSIX shell. Quiet when everything is up to date.
set -eu

if ! cmp -s package-lock.json node_modules/.installed-lock; then
  echo 'kvtier: installing packages (npm ci) ...' >&2
  # npm ci deletes node_modules, and with it the Node that may be running this: call npm by the outer one.
  if [ -n "${npm_execpath:-}" ] && [ -x "${npm_node_execpath:-}" ]; then
    "$npm_node_execpath" "$npm_execpath" ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  else
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  fi
  sh "$(dirname "$0")/after-install.sh"
fi

# Sources of the native addon that are newer than its last build, or than the last try of one.
if [ -d src/native/addon ] && [ -n "$(find src/native/addon -newer build/native/.checked 2>&1 | head -n 1)" ]; then
  if [ -x node_modules/.bin/node ]; then node=node_modules/.bin/node; else node=node; fi
  "$node" .ci/build-addon.ts || [ "${KVTIER_REQUIRE_NATIVE:-}" != 1 ] || exit 1
  mkdir -p build/native && : >build/native/.checked
fi

if [ -x node_modules/.bin/node ]; then exit 0; fi
version=$(node --version 2>/dev/null || echo none)
major=${version#v}
major=${major%%.*}
case $major in '' | *[!0-9]*) major=0 ;; esac
if [ "$major" -lt 24 ]; then
  echo "kvtier: there is no pinned Node for this platform ($(uname -s) $(uname -m)), and its own Node is $version." >&2
  echo 'kvtier: install Node 24 or newer and run the command again.' >&2
  exit 1
fi
