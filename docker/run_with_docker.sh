#!/usr/bin/env bash
# Runs with docker, under the name that MLPerf submissions have for it:
#
#   source docker/config_SYSTEM.sh; CONT=IMAGE DATADIR=/data LOGDIR=$PWD/results docker/run_with_docker.sh
ENGINE=docker exec "$(dirname "$0")/run_trials.sh"
