#!/bin/sh
# Makes a base image for the Dockerfile out of this machine, where no registry can be reached: busybox, the libraries
# that Node needs, Node itself and npm. Usage: stand-in-base.sh NODE IMAGE (as root, with buildah and busybox-static).
set -eu

node=$1
image=$2
buildah() { command buildah --storage-driver vfs "$@"; }

container=$(buildah from scratch)
root=$(buildah mount "$container")
for folder in bin usr/bin usr/local/bin usr/local/lib etc/ssl/certs tmp lib64 root dev proc sys var; do
  mkdir -p "$root/$folder"
done
chmod 1777 "$root/tmp"
cp /bin/busybox "$root/bin/busybox"
for applet in $(/bin/busybox --list); do
  [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
done
ln -s /bin/env "$root/usr/bin/env"
cp "$node" "$root/usr/local/bin/node"
libraries=$(ldd "$node" | awk '$3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }')
resolver=$(ls /lib/*-linux-gnu/libresolv.so.2 /lib/*-linux-gnu/libnss_dns.so.2 /lib/*-linux-gnu/libnss_files.so.2)
for library in $libraries $resolver; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")
mkdir -p "$root/usr/local/lib/node_modules"
cp -r "$npm" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/nsswitch.conf "$root/etc/"
printf 'root:x:0:0::/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
buildah config --env PATH=/usr/local/bin:/usr/bin:/bin \
  --env NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt "$container"
buildah umount "$container" >/dev/null
buildah commit -q "$container" "$image" >/dev/null
buildah rm "$container" >/dev/null
