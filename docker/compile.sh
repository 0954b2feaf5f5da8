#!/bin/sh
# In a build stage: the programs of a preset, without tests, stripped, in /out: compile.sh cpu|cuda
# CCACHE in the environment: through ccache, whose folder is /ccache.
set -eu
cd "$(dirname "$0")"
if [ -n "${CCACHE:-}" ]; then
  export CCACHE_DIR=/ccache CCACHE_COMPILERCHECK=content
else
  export CCACHE_DISABLE=1
fi
cmake --preset "$1" -DHLITE_WITH_TESTS=OFF -DHLITE_WITH_BENCH=OFF -DHLITE_WITH_PYTHON=OFF
cmake --build --preset "$1" -j "$(nproc)"
mkdir -p /out
cp "build/$1/bin/"* /out/
strip /out/*
