#!/usr/bin/env bash
# From nothing to a trained model: sets up, builds, generates Criteo-format data with a known best AUC,
# preprocesses it, trains a DLRM and a logistic regression on it, and prints the AUCs side by side. Then
# the same on real data, UCI Adult. Everything it makes lies in build/ and demo/. At the end it says how many seconds
# packages, building and running took.
#
#   tools/demo.sh               1,000,000 training samples
#   tools/demo.sh --rows N      fewer or more
#   tools/demo.sh --no-setup    do not look for missing packages
#
# Where there are no sources, as in a container, it runs the programs on PATH and makes demo/ in the current folder.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)

rows=1000000
setup=1
while [ $# -gt 0 ]; do
  case "$1" in
    --rows) rows=${2:?--rows needs a number}; shift 2 ;;
    --no-setup) setup=0; shift ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "demo.sh: unknown argument '$1'" >&2; sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
case "$rows" in '' | *[!0-9]*) echo "demo.sh: --rows: expected a number, found '$rows'" >&2; exit 2 ;; esac

say() { printf '\n== %s\n' "$*"; }
times='' begin=$SECONDS
# took <words>: notes the seconds since the last call.
took() { times="${times:+$times, }$1 $((SECONDS - begin)) s"; begin=$SECONDS; }
if [ -f "$root/CMakeLists.txt" ]; then
  cd "$root"
  if [ "$setup" = 1 ]; then say "packages"; tools/setup.sh --programs; took packages; fi
  say "building"
  mkdir -p build
  cmake --preset release >build/release.configure.log 2>&1 ||
    { cat build/release.configure.log >&2; exit 1; }
  cmake --build --preset release --target train criteo_synth criteo_prep csv_prep data_inspect -j "$(nproc)"
  PATH=$root/build/release/bin:$PATH
  took building
fi
mkdir -p demo

say "generating $rows rows of click data with planted structure"
criteo_synth --train "$rows" --test 100000 --out demo/synth --force
say "preprocessing"
criteo_prep --train demo/synth.train.tsv --val demo/synth.test.tsv --out demo --force

say "what was made: the skew of the keys"
data_inspect demo/train.bin --rows 100000 --batch 1024 | sed -n '/^skew/,$p'

# The value of a key in a small JSON file, and the AUC of the last evaluation in a metrics file.
json_value() { sed -n "s/.*\"$2\": *\(\[[^]]*\]\|[0-9.eE+-]*\).*/\1/p" "$1" | head -n 1; }
last_auc() { sed -n 's/.*"event":"eval".*"auc":\([0-9.]*\).*/\1/p' "$1" | tail -n 1; }

train_in() {  # folder of the data, config, name, more options
  local data=$PWD/$1 config=$root/configs/$2 name=$3
  shift 3
  train --config "$config" --metrics "demo/$name.jsonl" --set "layers.data.source=$data/train.bin" \
    --set "layers.data.eval_source=$data/val.bin" --set "solver.snapshot_prefix=$PWD/demo/${name}_" "$@"
}
sizes=$(json_value demo/manifest.json slot_size_array)
train_on_demo() {  # config, name
  local batch
  batch=$(json_value "$root/configs/$1" batchsize)
  # Four evaluations, the last one at the very end.
  local quarter=$((rows / batch / 4 > 0 ? rows / batch / 4 : 1))
  train_in demo "$1" "$2" --set "layers[1].sparse_embedding_hparam.slot_size_array=$sizes" \
    --set "solver.max_iter=$((4 * quarter))" --set "solver.eval_interval=$quarter"
}
say "training a DLRM, one pass"
train_on_demo demo.json dlrm
say "training a logistic regression on the same data"
train_on_demo demo_logistic.json logistic

say "real data: UCI Adult"
csv_prep --schema "$root/configs/adult_schema.json" --train "$root/tests/data/adult/adult.data.gz" \
  --val "$root/tests/data/adult/adult.test.gz" --out demo/adult --force
train_in demo/adult adult.json adult

say "results"
printf '%-44s %s\n' "best possible AUC (true probabilities)" "$(sed -n '/^ "test"/,$p' demo/synth.meta.json | json_value /dev/stdin bayes_auc)"
printf '%-44s %s\n' "DLRM after one pass" "$(last_auc demo/dlrm.jsonl)"
printf '%-44s %s\n' "logistic regression" "$(last_auc demo/logistic.jsonl)"
printf '%-44s %s\n' "UCI Adult, test AUC (logistic: 0.902)" "$(last_auc demo/adult.jsonl)"
took "data and training"
printf '%-44s %s\n' "time" "$times"
