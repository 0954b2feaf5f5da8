#!/usr/bin/env bash
# docs/first_hour.md in a freshly bootstrapped Debian 12: its commands as they are printed, by pip into a virtual
# environment, until a score has been served. As root, with debootstrap. Reaches packages as this machine's apt and pip
# do. Takes what a build takes.
#
#   tests/bench/fresh_hour.sh [FOLDER]     the new system's root [a temporary one]; removed at the end
set -euo pipefail
source_root=$(cd "$(dirname "$0")/../.." && pwd)
root=${1:-$(mktemp -d)/root}
[ "$(id -u)" = 0 ] || { echo "fresh_hour.sh: expected root, found user $(id -un)" >&2; exit 2; }
[ ! -e "$root" ] || [ -z "$(ls -A "$root")" ] || { echo "fresh_hour.sh: $root: expected nothing there" >&2; exit 2; }
begin=$SECONDS

clean_up() {
  umount "$root/proc" "$root/dev" 2>/dev/null || true
  if ! mountpoint -q "$root/proc" && ! mountpoint -q "$root/dev"; then rm -rf "$root"; fi
}
trap clean_up EXIT

echo "== a minimal Debian 12"
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
eval "$(apt-config shell proxy Acquire::http::Proxy)"
http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"

echo "== this machine's ways to packages"
apt-config dump | grep '^Acquire' >"$root/etc/apt/apt.conf.d/99machine" || true
rm -f "$root/etc/apt/sources.list"
cp -a /etc/apt/sources.list.d/*.sources "$root/etc/apt/sources.list.d/" 2>/dev/null || true
[ ! -f /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
  [ ! -f "$file" ] || install -D -m 644 "$file" "$root$file"
done
# Whom this machine trusts, under a name that the new system's own packages leave alone.
unset PIP_FIND_LINKS
if [ -f "${PIP_CERT:-${SSL_CERT_FILE:-}}" ]; then
  install -m 644 "${PIP_CERT:-$SSL_CERT_FILE}" "$root/etc/machine-ca.crt"
  export PIP_CERT=/etc/machine-ca.crt SSL_CERT_FILE=/etc/machine-ca.crt REQUESTS_CA_BUNDLE=/etc/machine-ca.crt
  export CURL_CA_BUNDLE=/etc/machine-ca.crt
fi

echo "== the repository, and the page's commands"
mkdir -p "$root/source"
git -C "$source_root" archive HEAD | tar -x -C "$root/source"
# All blocks but the one that builds without pip; Python's go through python3.
awk '/^```/ { if (inside) { if (python) print "PYTHON_BLOCK"; inside = python = 0 }
             else if ($0 != "```" && $0 !~ /^```sh build/) {
               inside = 1; python = $0 ~ /^```python/; if (python) print "python3 - <<'"'PYTHON_BLOCK'"'" } ; next }
     inside' "$source_root/docs/first_hour.md" >"$root/source/hour.sh"
grep -q "pip install" "$root/source/hour.sh"
chroot "$root" /bin/bash -c 'cd /source && export LC_ALL=C.UTF-8 && bash -euxo pipefail hour.sh' 2>&1 | tee "$source_root/build/fresh_hour.log"
grep -q '^{"scores": \[0\.[0-9]*\]}' "$source_root/build/fresh_hour.log" ||
  { echo "fresh_hour.sh: expected a served score, found none" >&2; exit 1; }
echo "== a score was served $((SECONDS - begin)) s after nothing"
