#!/usr/bin/env bash
# Builds an image with the builder that is there: docker/build.sh cpu|cuda [options]
#
#   --tag NAME        default hugectr_lite:cpu or :cuda
#   --builder NAME    docker, podman or buildah (default: the first that works)
#   --base IMAGE      Debian 12 (default debian:bookworm)
#   --bootstrap       make the base with debootstrap and import it, where no registry can be reached (buildah, as root)
#   --toolkit WHAT    cuda: an image with the CUDA toolkit, or a folder, mounted at /usr/local/cuda
#                     (default: /usr/local/cuda of this machine)
#   --build-arg A=B   CUBLAS= where the base has it, NCCL=2.28.9 to have that too (docker/Dockerfile); repeatable
#   --wheels FOLDER   cuda: wheels fetched beforehand (pip download --no-deps nvidia-cublas==13.1.0.3), where a build
#                     reaches no index (podman, buildah)
#   --output FILE     also write the image as an OCI archive (buildah)
# The image is of the commit that is checked out, whatever else lies in the folder (without git: of the folder as it is);
# times in it are the commit's, so that a second build is the same.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }
fail() { echo "build.sh: $*" >&2; exit 2; }
target='' tag='' builder='' base=debian:bookworm bootstrap=0 toolkit=/usr/local/cuda output='' wheels='' more=()
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
    --output) output=${2:?}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument '$1'" ;;
  esac
done
[ -n "$target" ] || { usage >&2; fail "expected cpu or cuda"; }
tag=${tag:-hugectr_lite:$target}

works() { case "$1" in docker) docker info >/dev/null 2>&1 ;; *) command -v "$1" >/dev/null ;; esac; }
if [ -z "$builder" ]; then
  for candidate in docker podman buildah; do if works "$candidate"; then builder=$candidate; break; fi; done
  [ -n "$builder" ] || fail "expected docker (running), podman or buildah, found none"
fi
works "$builder" || fail "--builder $builder is not there, or not running"

stamp=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
version=$(sed -n 's/^project(hugectr_lite VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# What the builder is given.
context=.
if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
  context=$(mktemp -d)
  trap 'rm -rf "$context"' EXIT
  git archive HEAD | tar -x -C "$context"
fi

# A Debian 12 without documentation, under the name that FROM asks for.
make_base() {
  [ "$builder" = buildah ] || fail "--bootstrap needs buildah"
  command -v debootstrap >/dev/null || fail "--bootstrap needs debootstrap"
  buildah inspect --type image "docker.io/library/$base" >/dev/null 2>&1 && return
  local rootfs container
  rootfs=$(mktemp -d)
  debootstrap --variant=minbase bookworm "$rootfs" >"$rootfs.log" 2>&1 || { tail "$rootfs.log" >&2; fail "debootstrap failed"; }
  rm -rf "$rootfs"/usr/share/{doc,man,locale,info}/* "$rootfs"/var/lib/apt/lists/* "$rootfs"/var/cache/{apt,debconf,ldconfig}/* \
    "$rootfs"/var/log/* "$rootfs"/dev/*
  printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$rootfs/etc/dpkg/dpkg.cfg.d/slim"
  container=$(buildah from scratch)
  buildah add -q "$container" "$rootfs" / >/dev/null
  buildah commit -q --timestamp "$stamp" "$container" "docker.io/library/$base" >/dev/null
  buildah rm "$container" >/dev/null
  rm -rf "$rootfs" "$rootfs.log"
}
[ "$bootstrap" = 0 ] || make_base

arguments=(--build-arg "BASE=$base" --build-arg "VERSION=$version" --build-arg "REVISION=$revision"
  --build-arg "CREATED=$(date -u -d "@$stamp" +%Y-%m-%dT%H:%M:%SZ)" --target "$target" --tag "$tag" --file "$context/docker/Dockerfile" ${more[@]+"${more[@]}"})
if [ "$target" = cuda ]; then
  if [ -d "$toolkit" ]; then
    [ "$builder" != docker ] || fail "docker mounts no folder into a build: expected --toolkit IMAGE"
    arguments+=(--volume "$(readlink -f "$toolkit"):/usr/local/cuda:ro")
  else
    arguments+=(--build-arg "TOOLKIT=$toolkit")
  fi
fi
if [ -n "$wheels" ]; then
  [ "$builder" != docker ] || fail "docker mounts no folder into a build: --wheels needs podman or buildah"
  arguments+=(--volume "$(readlink -f "$wheels"):/wheels:ro")
fi
case "$builder" in
  docker) SOURCE_DATE_EPOCH=$stamp docker build "${arguments[@]}" "$context" ;;
  podman) podman build --timestamp "$stamp" "${arguments[@]}" "$context" ;;
  buildah)
    [ "$bootstrap" = 0 ] || arguments+=(--pull-never)
    buildah bud --layers --timestamp "$stamp" --isolation "${BUILDAH_ISOLATION:-chroot}" "${arguments[@]}" "$context" ;;
esac
if [ -n "$output" ]; then
  [ "$builder" = buildah ] || fail "--output needs buildah"
  buildah push -q "$tag" "oci-archive:$output"
fi
echo "built $tag"
