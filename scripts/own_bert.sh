#!/usr/bin/env bash
# Trains a BERT of your own in six commands, from a text file to a page that shows how it works.
#
#     pip install -c constraints.txt '.[train]'
#     bash scripts/own_bert.sh                     # the bundled stories (minutes on two cores)
#     bash scripts/own_bert.sh my.txt              # your text
#     bash scripts/own_bert.sh --korean [my.txt]   # Korean: film reviews, or your text
#
# A text has one sentence per line and an empty line between documents. Everything is written to
# out/own_bert, or to $OUT. STEPS is the number of pre-training steps (default: 2,000).
set -euo pipefail

data=$(cd "$(dirname "$0")" && pwd)/lesson
language=english pieces=2000 rate=3e-3 cased=
sentence="I could not see what he had in his hand." prompt="I do not [MASK] what you mean."
if [ "${1:-}" = --korean ]; then
  shift
  # With 2,000 pieces most would be single syllables, from which a small model learns little.
  # With 6,000 pieces a rate of 3e-3 is too high: it predicts 11% of the masked pieces, not 18%.
  # --cased keeps accents, because stripping them would decompose Hangul.
  language=korean pieces=6000 rate=1e-3 cased=--cased
  sentence="이 영화 정말 재미있게 봤어요." prompt="이 영화 정말 [MASK]"
fi
text=${1:-$data/$language.txt.xz}
out=${OUT:-out/own_bert}
if [ -e "$out" ]; then
  echo "own_bert.sh: $out already exists. Move it away, or set OUT to another folder." >&2
  exit 2
fi

step() { # arguments: a title and two lines in English, then the same in Korean
  [ $language = english ] || shift 3
  printf '\n\033[1m%s\033[0m\n%s\n%s\n' "$1" "$2" "$3"
}

step "1. A vocabulary" \
  "Counts the words of the text and learns $pieces word pieces that can spell all words." \
  "Frequent words stay whole. Rare ones become several pieces (vocab.txt, one per line)." \
  "1. 어휘 집합" \
  "텍스트의 단어를 세어, 모든 단어를 만들어 낼 수 있는 조각 ${pieces}개를 배웁니다." \
  "자주 쓰는 단어는 통째로 남고, 드문 단어는 여러 조각으로 나뉩니다(vocab.txt, 한 줄에 조각 하나)."
minibert vocab --corpus "$text" --vocab-size "$pieces" $cased --output "$out/vocabulary"

step "2. Pre-training" \
  "Masks 15% of the pieces and learns to predict them, and whether one sentence follows another." \
  "No labels are needed. The weights start at random, and training saves 16 snapshots." \
  "2. 사전 학습" \
  "조각의 15%를 가린 텍스트를 읽으며, 가려진 조각을 맞히고 두 문장이 이어지는지 가리는 법을 배웁니다. 레이블은 쓰지 않습니다." \
  "무작위 값에서 시작하며, 학습 과정을 볼 수 있도록 중간 모델(스냅숏) 16개를 저장합니다."
minibert pretrain --config "$data/config.json" --corpus "$text" --vocab "$out/vocabulary" $cased \
  --max-length 64 --batch-size 32 --steps "${STEPS:-2000}" --learning-rate $rate --warmup 0.1 \
  --held-out 0.05 --checkpoints 16 --output "$out/pretrained"

step "3. Fine-tuning" \
  "Trains this model on a few thousand labeled sentences to tell dialogue from narration." \
  "The accuracy is measured on unseen sentences. Guessing gets half of them right." \
  "3. 파인튜닝" \
  "레이블이 붙은 영화평 수천 개로 이어서 학습하여, 긍정과 부정을 가리는 분류기를 만듭니다." \
  "정확도는 학습에 쓰지 않은 영화평으로 잽니다. 찍으면 절반을 맞힙니다."
minibert finetune classification --model "$out/pretrained" --train "$data/$language-train.tsv" \
  --dev "$data/$language-dev.tsv" --epochs 6 --learning-rate 5e-4 --output "$out/classifier"

step "4. Sentence vectors" \
  "Turns every sentence into a vector of 128 dimensions, the mean over its pieces." \
  "Similar sentences have similar vectors (vectors.npy, one row per sentence)." \
  "4. 문장 벡터" \
  "문장마다 조각 벡터의 평균을 구해 128차원 벡터로 나타냅니다. 비슷한 문장의 벡터는 서로 가깝습니다" \
  "(vectors.npy, 한 행에 문장 하나. numpy나 검색 인덱스에서 쓸 수 있습니다)."
minibert embed --model "$out/pretrained" --file "$data/$language-dev.tsv" --text-column text \
  --pooling mean --output "$out/vectors.npy"

step "5. A page to look inside" \
  "Shows the pre-trained model on one sentence: pieces, vectors, attention heads, masked words." \
  "Open page.html in a browser. It is one file and needs no network." \
  "5. 내부를 살펴보는 페이지" \
  "사전 학습한 모델이 문장 하나를 처리하는 과정을 보여 줍니다. 조각, 벡터, 모든 어텐션 헤드, 가려진 단어를 볼 수 있습니다." \
  "page.html을 브라우저로 여세요. 파일 하나로 되어 있고 인터넷이 필요 없습니다."
minibert view "$sentence" --model "$out/pretrained" --output "$out/page.html"

step "6. How it learned" \
  "Puts the snapshots of step 2 on a page with a slider. Watch the loss fall, a pattern form in a" \
  "head, and predictions turn from noise into words. Open run.html." \
  "6. 학습 과정 돌아보기" \
  "2단계의 스냅숏을 슬라이더가 있는 페이지에 담습니다. 손실이 내려가고, 헤드에 패턴이 생기고," \
  "엉뚱한 답이 점차 말이 되는 단어로 바뀝니다. run.html을 여세요."
minibert view "$prompt" --run "$out/pretrained" --output "$out/run.html"
