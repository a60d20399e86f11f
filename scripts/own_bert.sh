#!/usr/bin/env bash
# A BERT of your own, from a text file to a page that looks inside: six commands, in the order in which they run.
#
#     pip install -c constraints.txt '.[train]'
#     bash scripts/own_bert.sh                     # the bundled stories; minutes on two cores
#     bash scripts/own_bert.sh my.txt              # your text: a sentence a line, an empty line between documents
#
# Everything lands in out/own_bert (or $OUT); STEPS sets how long the model reads, 2,000 steps if it is not given.
set -euo pipefail

data=$(cd "$(dirname "$0")" && pwd)/lesson
language=english pieces=2000 cased=() sentence="I could not see what he had in his hand."
text=${1:-$data/$language.txt.xz}
out=${OUT:-out/own_bert}
if [ -e "$out" ]; then
  echo "own_bert.sh: $out is there already: move it away, or name another folder in OUT." >&2
  exit 2
fi

step() { printf '\n\033[1m%s\033[0m\n%s\n%s\n' "$@"; }

step "1. A vocabulary" \
  "Counts the words of the text and learns $pieces pieces from which all of them can be put together:" \
  "frequent words stay whole, rare ones become several pieces (vocab.txt, a piece a line)."
minibert vocab --corpus "$text" --vocab-size "$pieces" "${cased[@]}" --output "$out/vocabulary"

step "2. Pre-training" \
  "Reads the text with 15% of its pieces hidden, and learns to find them and to tell whether two sentences belong together;" \
  "nobody has labelled anything. It begins with random numbers, and 16 snapshots are kept of how it learns."
minibert pretrain --config "$data/config.json" --corpus "$text" --vocab "$out/vocabulary" "${cased[@]}" --max-length 64 \
  --batch-size 32 --steps "${STEPS:-2000}" --learning-rate 3e-3 --warmup 0.1 --held-out 0.05 --checkpoints 16 \
  --output "$out/pretrained"

step "3. Fine-tuning" \
  "Goes on from there with a few thousand labelled sentences, and becomes a classifier (does somebody" \
  "in a story say this, or is it told?). The accuracy is of unseen ones; guessing gets half."
minibert finetune classification --model "$out/pretrained" --train "$data/$language-train.tsv" \
  --dev "$data/$language-dev.tsv" --epochs 4 --learning-rate 5e-4 --output "$out/classifier"

step "4. Sentence vectors" \
  "Turns every sentence into 128 numbers, the mean over its pieces: near each other where sentences are alike" \
  "(vectors.npy, a row a sentence, for numpy or a search index)."
minibert embed --model "$out/pretrained" --file "$data/$language-dev.tsv" --column text --pooling mean \
  --out "$out/vectors.npy"

step "5. A page to look inside" \
  "Shows the pre-trained model at work on one sentence: pieces, vectors, every attention head, hidden words." \
  "Open page.html in a browser; it is one file and needs no network."
minibert view "$sentence" --model "$out/pretrained" --out "$out/page.html"

step "6. How it came to know" \
  "Puts the snapshots of step 2 on a page with a slider: the loss as it falls, a head whose pattern forms," \
  "answers that turn from noise into words. Open run.html."
minibert view --run "$out/pretrained" --out "$out/run.html"
