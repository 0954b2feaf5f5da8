#!/usr/bin/env bash
# Builds an image with the builder that is there: docker/build.sh cpu|cuda [options]
#
#   --tag NAME        default hugectr_lite:cpu or :cuda
#   --builder NAME    docker, podman or buildah (default: the first that works)
#   --base IMAGE      Debian 12 (default debian:bookworm)
#   --bootstrap       where no registry can be reached: make the base with debootstrap and import it; installs that and
#                     buildah where they are missing (as root, on Debian)
#   --toolkit WHAT    cuda: an image with the CUDA toolkit, or a folder, mounted at /usr/local/cuda
#                     (default: /usr/local/cuda of this machine)
#   --build-arg A=B   CUBLAS= where the base has it, NCCL=2.28.9 to have that too (docker/Dockerfile); repeatable
#   --wheels FOLDER   cuda, where a build reaches no package index: wheels from this folder; what is missing there is
#                     fetched into it first, by this machine's pip (podman, buildah)
#   --ccache FOLDER   compile through ccache with this cache: the same image, sooner (podman, buildah)
#   --no-cache        use no layer of an earlier build
#   --output FILE     also write the image as an OCI archive, and print its digest and size (buildah)
# The image is of the commit that is checked out, whatever else lies in the folder (without git: of the folder as it is);
# times in it are the commit's, so that a second build is the same.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,21s/^# \{0,1\}//p' "$0"; }
fail() { echo "build.sh: $*" >&2; exit 2; }
target='' tag='' builder='' base=debian:bookworm bootstrap=0 toolkit=/usr/local/cuda output='' wheels='' ccache='' more=()
while [ $# -gt 0 ]; do
  case "$1" in
    cpu | cuda) target=$1; shift ;;
    --tag) tag=${2:?}; shift 2 ;;
    --builder) builder=${2:?}; shift 2 ;;
    --base) base=${2:?}; shift 2 ;;
    --bootstrap) bootstrap=1; shift ;;
    --toolkit) toolkit=${2:?}; shift 2 ;;
    --build-arg) more+=(--build-arg "${2:?}"); shift 2 ;;
    --wheels) wheels=${2:?}; shift 2 ;;
    --ccache) ccache=${2:?}; shift 2 ;;
    --no-cache) more+=(--no-cache); shift ;;
    --output) output=${2:?}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument '$1'" ;;
  esac
done
[ -n "$target" ] || { usage >&2; fail "expected cpu or cuda"; }
tag=${tag:-hugectr_lite:$target}

if [ "$bootstrap" = 1 ]; then
  builder=${builder:-buildah}
  [ "$builder" = buildah ] || fail "--bootstrap needs buildah, found --builder $builder"
  if ! command -v buildah >/dev/null || ! command -v debootstrap >/dev/null; then
    echo "build.sh: installing buildah and debootstrap"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah debootstrap; } \
      >/dev/null || fail "--bootstrap: expected buildah and debootstrap, or root on Debian to install them"
  fi
fi
works() { case "$1" in docker) docker info >/dev/null 2>&1 ;; *) command -v "$1" >/dev/null ;; esac; }
if [ -z "$builder" ]; then
  for candidate in docker podman buildah; do if works "$candidate"; then builder=$candidate; break; fi; done
  [ -n "$builder" ] || fail "expected docker (running), podman or buildah, found none"
fi
works "$builder" || fail "--builder $builder is not there, or not running"
[ -z "$output" ] || [ "$builder" = buildah ] || fail "--output needs buildah, found $builder"

stamp=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
version=$(sed -n 's/^project(hugectr_lite VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What the builder is given.
context=.
if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
  context=$scratch/context
  mkdir "$context"
  git archive HEAD | tar -x -C "$context"
fi

# A Debian 12 without documentation and without what carries the time, under the name that FROM asks for.
make_base() {
  buildah inspect --type image "docker.io/library/$base" >/dev/null 2>&1 && return
  local rootfs=$scratch/rootfs container
  debootstrap --variant=minbase bookworm "$rootfs" >"$scratch/log" 2>&1 || { tail "$scratch/log" >&2; fail "debootstrap failed"; }
  rm -rf "${rootfs:?}"/usr/share/{doc,man,locale,info}/* "$rootfs"/var/lib/apt/lists/* "$rootfs"/var/cache/{apt,debconf,ldconfig}/* \
    "$rootfs"/var/log/* "${rootfs:?}"/dev/* "$rootfs"/etc/{hostname,resolv.conf,machine-id} "$rootfs"/etc/{passwd,shadow,group,gshadow}- \
    "$rootfs"/var/lib/dpkg/*-old
  sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1::/' "$rootfs/etc/shadow"  # the day on which passwords were set
  printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$rootfs/etc/dpkg/dpkg.cfg.d/slim"
  container=$(buildah from scratch)
  buildah add -q "$container" "$rootfs" / >/dev/null
  # The same whatever is built on it: its time is no commit's.
  buildah commit -q --timestamp 0 "$container" "docker.io/library/$base" >/dev/null
  buildah rm "$container" >/dev/null
  rm -rf "$rootfs"
}
[ "$bootstrap" = 0 ] || make_base

mounted() {  # option, folder, where
  [ "$builder" != docker ] || fail "docker mounts no folder into a build: $1 needs podman or buildah"
  arguments+=(--volume "$(readlink -f "$2"):$3")
}
arguments=(--build-arg "BASE=$base" --build-arg "VERSION=$version" --build-arg "REVISION=$revision"
  --build-arg "CREATED=$(date -u -d "@$stamp" +%Y-%m-%dT%H:%M:%SZ)" --target "$target" --tag "$tag" --file "$context/docker/Dockerfile")
if [ "$target" = cuda ]; then
  if [ -d "$toolkit" ]; then
    mounted "--toolkit FOLDER" "$toolkit" /usr/local/cuda:ro
  else
    arguments+=(--build-arg "TOOLKIT=$toolkit")
  fi
fi
if [ -n "$wheels" ]; then
  mkdir -p "$wheels"
  for package in "nvidia-cublas CUBLAS" "nvidia-nccl-cu13 NCCL"; do
    number=$(sed -n "s/^ARG ${package#* }=\(..*\)/\1/p" docker/Dockerfile | head -n 1)
    for word in ${more[@]+"${more[@]}"}; do case "$word" in "${package#* }="*) number=${word#*=} ;; esac; done
    [ -z "$number" ] || [ -n "$(find "$wheels" -name "$(tr - _ <<<"${package% *}")-$number-*.whl")" ] ||
      python3 -m pip download -q --no-deps --only-binary :all: --dest "$wheels" "${package% *}==$number"
  done
  mounted --wheels "$wheels" /wheels:ro
fi
if [ -n "$ccache" ]; then
  mkdir -p "$ccache"
  mounted --ccache "$ccache" /ccache
  arguments+=(--build-arg CCACHE=1)
fi
arguments+=(${more[@]+"${more[@]}"})
case "$builder" in
  docker) SOURCE_DATE_EPOCH=$stamp docker build "${arguments[@]}" "$context" ;;
  podman) podman build --timestamp "$stamp" "${arguments[@]}" "$context" ;;
  buildah)
    [ "$bootstrap" = 0 ] || arguments+=(--pull-never)
    buildah bud --layers --timestamp "$stamp" --isolation "${BUILDAH_ISOLATION:-chroot}" "${arguments[@]}" "$context" ;;
esac
if [ -n "$output" ]; then
  rm -f "$output"
  buildah push -q "$tag" "oci-archive:$output"
  digest=$(tar -xOf "$output" index.json | sed -n 's/.*"digest":"\([^"]*\)".*/\1/p')
  echo "$output: $digest, $(($(stat -c %s "$output") / 1000000)) MB"
fi
echo "built $tag"
