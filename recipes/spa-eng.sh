#!/usr/bin/env bash
# Makes the bundled model out of data/spa-eng: recipes/spa-eng.sh DIR trains below DIR and leaves the model in DIR/model.
# Four and a half hours on two cores. What was cut goes on when it is run again; what is done stays.
#
# first    spa-eng.toml: the corpus alone
# second   goes on with pairs made of it, which have adjectives and names where it has too few (scripts/augment-pairs)
# third    goes on from the mean of both, at a low rate
# fourth   goes on from a mean that is nearer to the second, with what the first two say together to half of the corpus's
#          Spanish: Kim and Rush 2016, "Sequence-Level Knowledge Distillation"
# model    the mean of third, fourth and what the fourth began with
#
# Means have a greedy search find what a beam finds; the later stages have the rare words right. recipes/spa-eng.log has
# figures. HEED is the program, `heed` where it is not set.
set -euo pipefail
[ $# = 1 ] || { sed -n 2,3p "$0" >&2; exit 2; }
heed=${HEED:-heed} to=$(realpath -m "$1") corpus=data/spa-eng/train.tsv
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$to"

# train STAGE OPTION...
train() {
  local stage=$to/$1
  shift
  if [ -e "$stage/MODEL_CARD.md" ]; then return; fi
  if [ -e "$stage/training.json" ]; then "$heed" train --resume "$stage"; else "$heed" train "$@" --model "$stage"; fi
}
# mean NAME STAGE...
mean() {
  local stages=("${@:2}")
  "$heed" average "${stages[@]/#/$to/}" --to "$to/$1"
}

train first --config recipes/spa-eng.toml
scripts/augment-pairs "$corpus" >"$to/more.tsv"
train second --config recipes/spa-eng-more.toml --init "$to/first" --pairs "$corpus" "$to/more.tsv"

mean half first second
train third --config recipes/spa-eng-more.toml --init "$to/half" --pairs "$corpus" "$to/more.tsv" --seed 3 \
  --learning-rate 0.0004 --warmup 50 --validate-every 100 --max-updates 300

rm -rf "$to/again" && cp -r "$to/second" "$to/again" # weighs twice
mean most first second again
for stage in first second; do "$heed" export --model "$to/$stage" --to "$to/$stage-f16"; done
if [ ! -e "$to/distilled.tsv" ]; then
  awk 'NR % 2 == 0' "$corpus" | cut -f 2 >"$to/half.es"
  "$heed" translate -m "$to/second-f16" -m "$to/first-f16" --batch 128 -i "$to/half.es" -o "$to/half.en"
  paste "$to/half.en" "$to/half.es" >"$to/distilled.tsv"
fi
train fourth --config recipes/spa-eng-more.toml --init "$to/most" --pairs "$to/distilled.tsv" "$to/more.tsv" --seed 3 \
  --dropout 0.1 --learning-rate 0.0006 --warmup 50 --validate-every 250 --max-updates 500

mean all third fourth most
"$heed" export --model "$to/all" --to "$to/model"
