#!/usr/bin/env bash
# Measures JAX on one GPU: bash benchmarks/gpu.sh DATA MODEL TEXT OUT [cpu]
#
# DATA is prepared data, MODEL a directory of benchmarks/widened.py, TEXT source
# sentences of it, and OUT the folder of the results. Each result is a file; run the script again to make the missing
# ones. "cpu" rehearses everything with tiny models.
set -uo pipefail
data=$1 model=$2 text=$3 out=$4 rehearsal=${5:-}
export KERAS_BACKEND=jax XLA_PYTHON_CLIENT_PREALLOCATE=false
mkdir -p "$out"

gpu=(--device=gpu --precision=mixed_bfloat16 --tokens=16384 --visit_seconds=0.7)
base=(--size=base) big=(--size=big)
decode=(--device=gpu --precision=bfloat16)
steps=ours,ours-packed,transformers-compiled,torch-compiled
searches=ours,transformers
trainer=(--preset=base --precision=mixed_bfloat16 --train_minutes=1
  --batch_tokens=16384 --set=dropout=0.3 --set=warmup_steps=1000)
if [ "$rehearsal" = cpu ]; then
  gpu=(--device=cpu --tokens=512 --visit_seconds=0.1)
  base=(--size=tiny) big=(--size=tiny)
  decode=(--device=cpu)
  steps=ours,ours-packed searches=ours
  trainer=(--preset=tiny --train_minutes=0.3)
fi
printf 'source,target,pairs\n32,32,100000\n' >"$out/equal.csv"

# measure NAME SECONDS COMMAND...
measure() {
  local name=$1 seconds=$2
  shift 2
  [ -e "$out/$name.txt" ] && return
  echo "$(date +%T) $name"
  timeout "$seconds" "$@" >"$out/$name.part" 2>"$out/$name.log" &&
    mv "$out/$name.part" "$out/$name.txt"
}

# Killed at a random moment, then to its end.
train() {
  local wmt=(python -m trainers.wmt --prepared_dir="$data"
    --model_dir="$out/model" --checkpoint_minutes=0.2 --dev_bleu_sentences=200
    "${trainer[@]}")
  timeout --signal=KILL 45 "${wmt[@]}"
  "${wmt[@]}"
}

measure training-base 200 python benchmarks/train_step.py "${base[@]}" \
  "${gpu[@]}" --lengths="$out/equal.csv" --shapes=1 --rounds=3 \
  --systems="$steps"
measure trainer 240 bash -c "$(declare -f train); $(declare -p data out trainer)
train"
measure training-big 200 python benchmarks/train_step.py "${big[@]}" \
  "${gpu[@]}" --lengths="$out/equal.csv" --shapes=1 --rounds=3 --systems=ours
for batch in 32 128 1; do
  sentences=256
  [ "$batch" = 1 ] && sentences=8
  [ "$rehearsal" = cpu ] && sentences=$batch
  measure "decode-$batch" 150 python benchmarks/decode.py \
    --model_dir="$model" --text="$text" --beams=4 --batches="$batch" \
    --rounds=2 "${decode[@]}" --sentences="$sentences" --systems="$searches"
done
ls "$out"
