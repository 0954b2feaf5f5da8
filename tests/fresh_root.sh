#!/usr/bin/env bash
# Runs a command in a new minimal Debian (debootstrap --variant=minbase), in a clean copy of this commit. What this machine
# has installed by hand cannot help there.
#
#   tests/fresh_root.sh [debian12|debian13] [--root FOLDER] [--bare] COMMAND [ARGUMENT]...
#
#   --root FOLDER   keep the root in FOLDER. Where FOLDER holds one already, the command runs in that one, in the sources
#                   that it has. Default: a temporary folder, removed at the end
#   --bare          without /usr/local/cuda and without compiler cache
#
# As root; installs debootstrap where it is missing. apt and pip in the new root reach packages as they do here: the mirror,
# the proxy and the certificates of this machine are copied. ~/.cache/hugectr_lite/fresh_root keeps what apt, pip and ccache
# may keep; each of them checks what it takes from there. The command's processes end with it.
set -euo pipefail
source_root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "fresh_root.sh: $*" >&2; exit 2; }
usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; }

distribution=debian12 root='' bare=0
while [ $# -gt 0 ]; do
  case "$1" in
    debian12 | debian13) distribution=$1; shift ;;
    --root) root=${2:?--root needs a folder}; shift 2 ;;
    --bare) bare=1; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "fresh_root.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { usage >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "expected root, found user $(id -un)"
case "$distribution" in debian12) suite=bookworm ;; debian13) suite=trixie ;; esac
if ! command -v debootstrap >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap >/dev/null || fail "debootstrap cannot be installed"
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/hugectr_lite/fresh_root
mkdir -p "$cache/apt-$suite" "$cache/pip" "$cache/ccache"
if [ -z "$root" ]; then
  root=$(mktemp -d)/root
  trap 'rm -rf "$(dirname "$root")"' EXIT
fi

# make_root: a minimal system in $root.new, renamed once it is whole.
make_root() {
  local new=$root.new mirror
  rm -rf "$new"
  mkdir -p "$(dirname "$root")"
  # The mirror of this machine's own Debian, else debootstrap's.
  mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 ~ /^(bookworm|trixie)$/ { print $1; exit }')
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase --cache-dir="$cache/apt-$suite" "$suite" "$new" \
    ${mirror:+"$mirror"} >"$new.log" 2>&1 || { tail -n 20 "$new.log" >&2; fail "debootstrap failed"; }
  apt-config dump | grep -E '^Acquire::(https?|ftp|Retries|Check)' >"$new/etc/apt/apt.conf.d/99machine" || true
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
    [ ! -f "$file" ] || install -D -m 644 "$file" "$new$file"
  done
  # The certificates this machine trusts, under a name that the new system's packages leave alone.
  local certificates=${PIP_CERT:-${SSL_CERT_FILE:-}}
  if [ -f "$certificates" ]; then install -m 644 "$certificates" "$new/etc/machine-ca.crt"; fi
  mkdir -p "$new/source"
  git -C "$source_root" archive HEAD | tar -x -C "$new/source"
  git -C "$source_root" rev-parse HEAD >"$new/source.commit"
  mv "$new" "$root"
  rm -f "$new.log"
}
[ -d "$root/source" ] || make_root

variables=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
  ${CI:+CI="$CI"} ${TERM:+TERM="$TERM"})
if [ -f "$root/etc/machine-ca.crt" ]; then
  for name in PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do variables+=("$name=/etc/machine-ca.crt"); done
fi
mounts=("$cache/apt-$suite /var/cache/apt/archives" "$cache/pip /root/.cache/pip")
if [ "$bare" = 0 ]; then
  mounts+=("$cache/ccache /root/.cache/ccache")
  if [ -d /usr/local/cuda ]; then
    mounts+=("$(readlink -f /usr/local/cuda) /usr/local/cuda")
    echo /usr/local/cuda/lib64 >"$root/etc/ld.so.conf.d/cuda.conf"
  fi
fi

# In namespaces of its own: mounts and processes end with the command, and with this script, however they end.
export root
unshare --mount --pid --fork --kill-child bash -euo pipefail -c '
  while [ "$1" != -- ]; do
    mkdir -p "$root${1#* }"
    mount --bind "${1% *}" "$root${1#* }"
    shift
  done
  shift
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  chroot "$root" ldconfig
  exec chroot "$root" env -i "$@"' fresh_root "${mounts[@]}" -- "${variables[@]}" \
  bash -c 'cd /source && exec "$@"' fresh_root "$@" <&0 &
trap 'kill -KILL $! 2>/dev/null' INT TERM  # it blocks the others
code=0
wait $! || code=$?
exit "$code"
