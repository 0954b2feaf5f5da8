# shellcheck shell=bash
# DLRM-DCNv2 scaled down, on the demo's million samples with lists of keys, to its target in a
# minute. The data, next to the demo's own (tools/demo.sh), DATADIR=demo/dcnv2:
#   criteo_prep --train demo/synth.train.tsv --val demo/synth.test.tsv --out demo/dcnv2 --multi-hot "$MULTI_HOT"
export MULTI_HOT=3,2,1,2,4,1,1,1,1,4,3,4,1,4,4,4,1,1,1,4,4,4,4,3,1,1
export DGXSYSTEM=demo_dcnv2_1x1x1024 DGXNNODES=1 DGXNGPU=1
export CONFIG=${CONFIG:-/usr/local/share/hugectr_lite/configs/demo_dcnv2.json} BENCHMARK=${BENCHMARK:-dlrm_dcnv2}
export TRAIN_FILE=train.bin EVAL_FILE=val.bin AUC_THRESHOLD=${AUC_THRESHOLD:-0.84} WALLTIME=00:10:00
