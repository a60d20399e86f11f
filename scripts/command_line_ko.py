"""Korean texts of docs/command-line.ko.md, which `command_line_guide.py` writes.

The keys of `HELPS` are options, or "command option" where the commands differ.
"""

TITLE = "명령줄"
INTRODUCTION = """\
`minibert help COMMAND`를 실행하면 명령의 옵션이 나옵니다. 이 문서는
`scripts/command_line_guide.py`가 명령의 파서에서 만듭니다. 출력되는 도움말은 영어입니다.
"""
RULES_TITLE = "모든 명령에 공통된 규칙"
RULES = {
    "model": "모델은 `-m/--model NAME`으로 지정합니다. 폴더, 내장 모델, Hub id를 쓸 수 있고, "
    "`NAME@REVISION`은 브랜치, 태그, 커밋을 가리킵니다. `convert`와 `export`는 `SRC DST`를 "
    "받습니다.",
    "output": "출력은 `-o/--output PATH`입니다. `--force` 없이는 아무것도 덮어쓰지 않습니다.",
    "texts": "텍스트는 인자, `--file`, 파이프로 줍니다. 텍스트를 읽는 명령은 모두 같은 파일을 "
    "읽습니다: 한 줄에 텍스트 하나인 파일, .csv, .tsv, .jsonl, .json, .parquet, 압축 파일, 폴더, "
    "URI.",
    "columns": "표의 열은 `--text-column`, `--pair-column`, `--label-column`, `--id-column`으로 "
    "지정합니다. 텍스트로 된 표의 형식은 `--delimiter`와 `--quoting`으로 지정합니다.",
    "results": "기본 출력은 사람이 읽는 텍스트입니다. `--json`은 문서 하나를 출력하고, 결과나 쓴 "
    "파일은 `output` 키에 있습니다. `--jsonl`은 결과마다 한 줄을 출력합니다.",
    "device": "`--device`에는 `cpu`, `cuda`, `cuda:1`, `mps`를 씁니다. 임베딩과 예측은 따로 "
    "지정하지 않으면 CPU에서, 학습은 GPU가 있으면 GPU에서 실행하고 그 장치를 출력합니다.",
    "messages": "메시지와 경고는 로거 `minibert`를 거쳐 stderr로 나갑니다. `-q/--quiet`는 오류만 "
    "남기고, `--debug`는 오류의 트레이스백을 보여 줍니다.",
}
EXIT_CODES_TITLE = "종료 코드"
EXIT_CODES = {
    "0": "성공",
    "1": "작업이나 검사 실패",
    "2": "잘못된 사용법",
    "130": "Ctrl-C로 중단",
    "143": "SIGTERM으로 중단",
}
ENVIRONMENT_TITLE = "환경 변수"
ENVIRONMENT_HEADS = ("변수", "뜻")
ENVIRONMENT = {
    "MINIBERT_API_KEY": "`minibert serve`의 클라이언트가 보내야 하는 키.",
    "HF_HOME": "Hub 캐시 폴더. 기본값: `~/.cache/huggingface`.",
    "HF_TOKEN": "Hub의 비공개 모델에 쓰는 토큰.",
    "HF_HUB_OFFLINE": "1이면 Hub 캐시만 씁니다. 명령 하나에만 적용하려면 `--offline`을 씁니다.",
    "HTTPS_PROXY": "Hub에서 내려받을 때 쓰는 프록시.",
    "OMP_NUM_THREADS": "PyTorch와 ONNX Runtime의 스레드 수. 기본값: 코어마다 하나.",
    "CUDA_VISIBLE_DEVICES": "명령이 쓸 수 있는 GPU. 예: `0` 또는 `0,1`.",
    "RANK, WORLD_SIZE, LOCAL_RANK": "torchrun이 설정합니다: 프로세스의 순번, 프로세스 수, "
    "프로세스의 GPU.",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "oneDNN이 보관하는 컴파일된 연산의 수. 설정되어 있지 않으면 "
    "`minibert serve`가 8192로 설정합니다.",
    "LC_ALL, LC_MESSAGES, LANG": "한국어 로캘이면 `minibert learn`이 한국어로 열립니다.",
    "PYTHONUTF8": "1이면 터미널의 인코딩이 달라도 인자를 UTF-8로 읽습니다.",
    "NO_PROXY": "프록시 없이 접속할 호스트.",
}
OPTION_HEADS = ("옵션", "뜻")
REQUIRED = "필수."
DEFAULT = "기본값: {value}."
CHOICES = "선택: {values}."
GROUPS = {
    "use": "사용",
    "learn": "배우기",
    "train": "학습",
    "check and convert": "검사와 변환",
}
SUMMARIES = {
    "embed": "텍스트를 벡터로 바꾸어 stdout, 파일, 샤드에 씁니다.",
    "search": "말뭉치에서 질의와 가장 비슷한 텍스트를 찾습니다.",
    "rerank": "크로스 인코더로 텍스트를 질의와의 관련도 순으로 정렬합니다.",
    "classify": "파인튜닝한 분류기로 레이블을, 회귀 모델로 점수를 예측합니다.",
    "entities": "파인튜닝한 태거로 이름과 같은 개체를 텍스트에서 찾습니다.",
    "answer": "파인튜닝한 모델로 질문의 답을 텍스트에서 찾습니다.",
    "fill-mask": "텍스트의 [MASK] 자리에 올 단어를 예측합니다.",
    "serve": "OpenAI API와 text-embeddings-inference의 클라이언트에 모델을 서비스합니다.",
    "learn": "BERT를 직접 움직여 보며 읽는 글을 엽니다.",
    "view": "텍스트 하나로 모델의 계산 과정을 따라가 보는 페이지를 씁니다.",
    "tokenize": "텍스트의 토큰과 id, 위치를 보여 줍니다.",
    "vocab": "텍스트에서 워드피스 어휘 집합을 학습합니다.",
    "pretrain": "말뭉치로 BERT를 사전 학습하거나 이어서 학습합니다.",
    "finetune classification": "텍스트나 텍스트 쌍의 레이블을 학습합니다.",
    "finetune regression": "텍스트나 텍스트 쌍의 점수를 학습합니다.",
    "finetune tokens": "단어마다 붙는 태그를 학습합니다(CoNLL 파일). 예: 텍스트 속 이름.",
    "finetune answers": "질문의 답이 텍스트의 어디에 있는지 학습합니다(SQuAD 파일).",
    "finetune pairs": "서로 짝인 두 텍스트의 벡터를 가깝게 만듭니다.",
    "finetune triplets": "pairs와 같지만 짝이 아닌 텍스트(hard negative)도 씁니다.",
    "finetune scores": "두 텍스트의 유사도가 점수와 같아지도록 학습합니다.",
    "evaluate": "레이블이 있는 데이터로 모델을 평가하고 신뢰 구간과 틀린 예를 보여 줍니다.",
    "verify": "체크포인트를 레이어마다 transformers와 비교합니다.",
    "info": "체크포인트나 학습 실행을 요약합니다.",
    "convert": "체크포인트를 safetensors로 변환합니다.",
    "export": "모델을 PyTorch 없이 실행되는 ONNX 그래프로 씁니다.",
    "models": "내장 모델과 `--config`에 쓸 수 있는 크기를 나열합니다.",
    "completion": "셸 자동 완성 스크립트를 출력합니다.",
}
HELPS = {
    "TEXT": "처리할 텍스트. 여러 개를 줄 수 있습니다.",
    "fill-mask TEXT": "[MASK]가 하나 이상 들어 있는 텍스트. 여러 개를 줄 수 있습니다.",
    "view TEXT": "따라가 볼 텍스트. `--run`을 쓰면 생략할 수 있습니다.",
    "QUERY": "찾을 텍스트. 여러 개를 줄 수 있습니다.",
    "rerank QUERY": "다른 텍스트들이 답해야 하는 질의.",
    "MODEL": "서비스할 모델. `--model`과 같이 씁니다. NAME=MODEL로 다른 이름을 붙일 수 있습니다.",
    "FILE": "레이블이 있는 파일. `minibert finetune`과 같은 형식입니다. MODEL FILE로 모델도 "
    "지정할 수 있습니다.",
    "SRC": "모델: 폴더, 내장 모델, Hub id.",
    "convert SRC": "체크포인트: 폴더나 Hub id.",
    "DST": "쓸 폴더.",
    "convert DST": "쓸 폴더. SRC와 같으면 그 폴더 안에서 변환합니다.",
    "SHELL": "셸: bash, zsh, fish.",
    "--file": "텍스트 파일: 한 줄에 텍스트 하나, 또는 표(.csv, .tsv, .jsonl, .json, .parquet, 압축 "
    "파일도 됨), 폴더, URI. `-`는 stdin입니다. 여러 번 쓸 수 있습니다.",
    "rerank --file": "정렬할 텍스트: 한 줄에 텍스트 하나, 또는 표. `-`는 stdin입니다.",
    "--text-column": "표에서 텍스트가 있는 열. 기본값: text.",
    "finetune --text-column": "텍스트가 있는 열.",
    "--pair-column": "쌍의 두 번째 텍스트가 있는 열.",
    "--label-column": "표에서 레이블이 있는 열.",
    "finetune regression --label-column": "점수가 있는 열.",
    "finetune scores --label-column": "점수가 있는 열.",
    "--label-columns": "한 텍스트에 레이블이 여러 개일 때 레이블마다 하나씩 있는 열. 값은 1이나 "
    "0입니다.",
    "--id-column": "id가 있는 열. 결과에도 남습니다.",
    "--dev-text-column": "`--dev`와 `--test`에서 텍스트가 있는 열. 기본값: `--train`과 같음.",
    "--dev-pair-column": "`--dev`와 `--test`에서 두 번째 텍스트가 있는 열. 기본값: `--train`과 "
    "같음.",
    "--dev-label-column": "`--dev`와 `--test`에서 레이블이 있는 열. 기본값: `--train`과 같음.",
    "finetune pairs --dev-label-column": "`--dev`에만 점수가 있을 때 그 점수의 열.",
    "finetune triplets --dev-label-column": "`--dev`에만 점수가 있을 때 그 점수의 열.",
    "--negative-column": "짝이 아닌 텍스트가 있는 열. 쉼표로 여러 개를 줄 수 있고, 여러 번 쓸 수 "
    "있습니다.",
    "--question-column": "텍스트마다 다른 질문이 있는 열.",
    "--delimiter": "텍스트로 된 표의 열을 나누는 문자, 또는 tab. 기본값: .csv는 쉼표, 나머지는 탭. "
    "none: 표가 아니라 줄마다 한 텍스트로 읽습니다.",
    "evaluate --delimiter": "텍스트로 된 표의 열을 나누는 문자, 또는 tab. 기본값: .csv는 쉼표, "
    "나머지는 탭.",
    "finetune --delimiter": "텍스트로 된 표의 열을 나누는 문자, 또는 tab. 기본값: .csv는 쉼표, "
    "나머지는 탭.",
    "--quoting": "텍스트로 된 표의 값이 따옴표로 묶여 있는지 여부. auto는 .csv를 따옴표가 있는 "
    "것으로 읽고, 탭으로 나뉜 표는 분명할 때만 그렇게 읽습니다.",
    "--columns": "머리글 줄이 없는 파일의 열 이름.",
    "--model": "모델: 폴더, 내장 모델, Hub id. NAME@REVISION은 Hub의 브랜치, 태그, 커밋을 "
    "가리킵니다.",
    "serve --model": "MODEL 대신 쓸 수 있는 옵션. 여러 번 쓸 수 있습니다. 기본값: minibert-en.",
    "learn --model": "글과 함께 쓸 모델. 장면은 모델의 조각에 맞는 것이 열립니다. 기본값: "
    "`--lang ko`나 한국어 로캘이면 minibert-ko, 아니면 minibert-en.",
    "pretrain --model": "이어서 학습할 체크포인트: 폴더, 내장 모델, Hub id(NAME@REVISION).",
    "info --model": "모델: 폴더, 내장 모델, Hub id(NAME@REVISION). 학습 실행의 폴더이면 곡선을 "
    "그립니다.",
    "--corpus-model": "`--vectors`를 만든 모델이 `--model`과 다를 때 그 모델. 두 모델의 벡터 "
    "공간이 같아야 합니다.",
    "--offline": "로컬 파일과 Hub 캐시만 씁니다.",
    "--backend": "모델을 실행할 라이브러리. onnx는 `minibert export`가 쓴 폴더를 실행합니다.",
    "--precision": "모델의 연산. exact는 transformers의 연산을 그대로 써서 텍스트 하나의 결과가 "
    "비트까지 같고, fp32는 융합 연산이라 마지막 비트가 다르며, bf16과 int8은 정확도를 조금 내주고 "
    "빨라집니다.",
    "export --precision": "그래프의 연산. int8은 양자화합니다.",
    "--device": "계산할 장치: cpu, cuda, cuda:1, mps.",
    "finetune --device": "학습할 장치: cpu, cuda, cuda:1, mps. 기본값: GPU가 있으면 CUDA, 없으면 "
    "CPU.",
    "pretrain --device": "학습할 장치: cpu, cuda, cuda:1, mps. 기본값: GPU가 있으면 CUDA, 없으면 "
    "CPU.",
    "--pooling": "토큰 벡터의 풀링: cls, pooler, mean, max, mean_sqrt_len. 쉼표로 여러 개를 줄 수 "
    "있습니다. 기본값: 모델의 설정.",
    "--layers": "풀링할 은닉 상태: last, second_to_last, concat_last_4 등, 또는 11,12와 같은 "
    "목록. 0은 임베딩의 출력(h0), L은 마지막 레이어의 출력(hL)입니다.",
    "--layer-weights": "`--layers`가 여러 개일 때 각각의 가중치. 가중 평균을 냅니다.",
    "--max-length": "텍스트마다 최대 토큰 수. 기본값: 모델의 한도.",
    "finetune --max-length": "예마다 최대 토큰 수.",
    "pretrain --max-length": "예마다 최대 토큰 수.",
    "--normalize": "벡터를 L2 정규화합니다. 기본값: 모델 폴더의 설정.",
    "--batch-tokens": "배치마다 최대 토큰 수.",
    "--prompt": "모든 텍스트 앞에 붙일 글.",
    "--prompt-name": "모델에 있는 프롬프트의 이름. 예: query.",
    "--overflow": "`--max-length`보다 긴 텍스트를 자르거나(truncate), 창으로 나누어 평균을 냅니다"
    "(mean).",
    "--output": "쓸 파일(.jsonl, .csv, .tsv, .parquet). 입력의 열도 함께 씁니다. 기본값: stdout.",
    "embed --output": "쓸 파일(.npy, .safetensors, .jsonl, .parquet), 또는 샤드를 쓸 폴더. "
    "폴더이면 같은 명령으로 멈춘 곳에서 이어집니다. 기본값: stdout.",
    "learn --output": "쓸 페이지. 기본값: 임시 파일을 브라우저로 엽니다.",
    "view --output": "쓸 페이지. 기본값: 임시 파일을 브라우저로 엽니다.",
    "vocab --output": "vocab.txt와 tokenizer_config.json을 쓸 폴더.",
    "pretrain --output": "모델, 로그, 체크포인트를 쓸 폴더.",
    "finetune --output": "모델, 로그, 체크포인트를 쓸 폴더.",
    "--force": "파일이 이미 있거나 폴더에 다른 파일이 있어도 씁니다.",
    "--format": "샤드의 형식. 기본값: 폴더에 이미 있는 샤드의 형식. 새 폴더이면 npy이고, "
    "`--id-column`이 있으면 parquet입니다.",
    "--shard-size": "샤드마다 텍스트 수.",
    "--update": "샤드 폴더를 `--file`의 텍스트에 맞춥니다. 새 텍스트와 바뀐 텍스트만 계산하고, "
    "그대로인 텍스트의 벡터는 두고, 없어진 텍스트의 벡터는 뺍니다.",
    "--processes": "샤드를 계산할 프로세스 수. 기본값: 스레드 8개마다 하나.",
    "--json": "JSON 문서 하나를 출력합니다.",
    "--jsonl": "결과마다 JSON 한 줄을 출력합니다.",
    "--queries": "질의 파일. `--corpus`와 같은 형식이며 `-`는 stdin입니다.",
    "--corpus": "텍스트 파일. `minibert embed`와 같은 형식입니다: 한 줄에 텍스트 하나, 표, 폴더, "
    "URI. `-`는 stdin입니다.",
    "vocab --corpus": "텍스트가 있는 파일, 폴더, URI. `minibert pretrain`과 같은 형식입니다.",
    "pretrain --corpus": "한 줄에 문장 하나, 문서 사이에 빈 줄이 있는 텍스트. 또는 한 행에 문서 "
    "하나인 .jsonl, .csv, .parquet. 압축 파일, 폴더, URI도 됩니다. WEIGHT는 각 파일에서 쓸 토큰의 "
    "비율이며, 생략하면 있는 그대로 씁니다.",
    "--vectors": "`minibert embed --output`으로 미리 계산한 말뭉치의 벡터.",
    "--rerank": "질의마다 처음 100개의 텍스트를 다시 채점할 크로스 인코더.",
    "--top-k": "보여 줄 텍스트 수.",
    "search --top-k": "질의마다 보여 줄 텍스트 수.",
    "classify --top-k": "텍스트마다 보여 줄 레이블 수. 점수가 높은 순입니다. 기본값: 1. 레이블이 "
    "여러 개인 모델은 `--threshold`를 넘는 레이블.",
    "fill-mask --top-k": "[MASK]마다 보여 줄 예측 수.",
    "--pair": "두 텍스트를 비교하는 모델의 두 번째 텍스트.",
    "view --pair": "두 번째 텍스트. 다음 문장 예측의 입력과 같습니다.",
    "--threshold": "레이블을 보여 주는 최소 확률. 기본값: 레이블이 여러 개인 모델은 파인튜닝이 "
    "함께 저장한 임곗값, 없으면 0.5.",
    "evaluate --threshold": "레이블이 여러 개일 때 예측한 것으로 보는 최소 확률. 기본값: "
    "파인튜닝이 모델과 함께 저장한 임곗값, 없으면 0.5.",
    "--stride": "긴 텍스트를 나눈 이웃한 창이 함께 갖는 토큰 수. 기본값: 창의 사분의 일.",
    "--by-piece": "조각마다 레이블을 읽습니다. 글자 단위 레이블로 학습한 모델에 씁니다.",
    "--question": "모든 텍스트에 물을 질문.",
    "--no-answer": "답이 없는 텍스트도 허용합니다. 그런 질문으로 학습한 모델에 씁니다.",
    "--max-answer-length": "답의 최대 토큰 수.",
    "--host": "서비스할 주소. 환경 변수 MINIBERT_API_KEY가 있으면 클라이언트는 그 키를 보내야 "
    "합니다.",
    "--port": "서비스할 포트. 0이면 비어 있는 포트를 씁니다.",
    "--max-wait-ms": "다른 요청과 한 배치로 묶이기를 기다리는 최대 시간(ms). 기다리는 요청이 "
    "없으면 바로 계산합니다.",
    "--max-waiting": "대기열의 최대 텍스트 수.",
    "--max-body": "요청의 최대 바이트 수.",
    "--max-texts": "요청마다 최대 텍스트 수.",
    "--max-tokens": "요청마다 최대 토큰 수.",
    "--timeout": "요청의 제한 시간(초).",
    "--log-format": "접근 로그의 형식.",
    "--no-normalize": "벡터를 L2 정규화하지 않고 모델이 낸 그대로 돌려줍니다.",
    "--metrics-open": "/metrics를 키 없이 보여 줍니다.",
    "--lang": "페이지를 열 언어(영어나 한국어). 페이지에서 바꿀 수 있습니다. 기본값: 모델은 로캘, "
    "페이지는 브라우저를 따릅니다.",
    "--open": "페이지를 브라우저로 엽니다. 기본값: `--output` 없이 터미널에서 실행할 때만.",
    "--pad-to": "[PAD]로 채워 맞출 토큰 수. 마스크가 어떻게 쓰이는지 볼 수 있습니다.",
    "--run": "`minibert pretrain --checkpoints`로 학습한 폴더. 스냅숏을 보여 줍니다.",
    "--vocab-size": "최대 토큰 수.",
    "pretrain --vocab-size": "학습할 어휘 집합의 최대 크기. 기본값: config의 값.",
    "--min-frequency": "토큰이 나와야 하는 최소 횟수.",
    "--cased": "대문자와 악센트를 그대로 둡니다(한국어에 필요합니다).",
    "--config": "처음부터 학습할 모델: config.json, 또는 tiny, mini, small, medium, base, large.",
    "--held-out": "평가용으로 떼어 둘 문서의 비율.",
    "finetune --held-out": "`--dev`가 없을 때 `--train`에서 떼어 둘 비율. 레이블마다 같은 "
    "비율입니다.",
    "--vocab": "어휘 집합의 폴더. 기본값: `--model`의 어휘 집합, 없으면 말뭉치에서 학습합니다.",
    "--adapt-vocab": "`--model`의 임베딩을 `--vocab`으로 옮깁니다. 양쪽에 있는 조각은 그대로 "
    "쓰고, 새 조각은 그것을 이루던 조각들의 평균에서 시작합니다.",
    "--no-next-sentence": "마스크 토큰만으로 학습합니다.",
    "--sentence-order": "다음 문장 예측 대신 문장 순서 예측으로 학습합니다(ALBERT).",
    "--whole-words": "단어의 토큰을 모두 함께 마스킹합니다.",
    "--spans": "여러 단어로 된 구간을 마스킹합니다(SpanBERT).",
    "--mask-probability": "마스킹할 토큰의 비율.",
    "--epochs": "데이터를 반복하는 횟수. `--steps`가 있으면 쓰지 않습니다.",
    "--steps": "옵티마이저 스텝 수.",
    "--batch-size": "옵티마이저 스텝마다 예의 수. 모든 프로세스를 합한 값입니다.",
    "--learning-rate": "AdamW의 최대 학습률. 기본값: BERT base는 5e-5, 작은 모델일수록 크며 "
    "출력됩니다.",
    "pretrain --learning-rate": "AdamW의 최대 학습률.",
    "--warmup": "학습률이 0에서 선형으로 커지는 스텝의 비율.",
    "--decay-steps": "학습률이 0까지 선형으로 작아지는 마지막 스텝 수. 그 전에는 일정하므로 "
    "학습을 늘릴 수 있습니다(MiniCPM). 기본값: 워밍업 이후의 모든 스텝.",
    "--seed": "데이터 순서와 새 가중치의 시드.",
    "--weight-decay": "AdamW의 가중치 감쇠. 편향과 LayerNorm에는 쓰지 않습니다.",
    "--layer-decay": "마지막 레이어에서 아래로 갈수록 학습률에 곱하는 값.",
    "--freeze": "임베딩과 함께 고정할 첫 레이어의 수(0: 모두 학습).",
    "--max-grad-norm": "이보다 큰 기울기는 이 노름으로 줄입니다.",
    "--patience": "점수가 좋아지지 않아도 기다리는 평가 횟수(0: 조기 종료하지 않음).",
    "--tokens-per-forward": "순전파마다 최대 토큰 수. 더 큰 배치는 나눕니다.",
    "--bf16": "안전한 곳에서 bfloat16으로 계산합니다(autocast).",
    "--exact": "배치를 채우고 보통의 연산을 씁니다. 느리지만 비트까지 같습니다.",
    "--pool": "길이순으로 함께 정렬하는 배치 수(1: 무작위 순서). 정렬하면 길이가 다양할 때 더 "
    "빠르지만, 파인튜닝의 정확도가 조금 떨어집니다.",
    "--save-every": "체크포인트 사이의 스텝 수. 0이면 평가와 에폭이 끝날 때마다 저장합니다.",
    "--keep-states": "학습이 끝난 뒤 남길 체크포인트 수. 하나라도 있으면 `--steps`를 늘려 더 "
    "학습할 수 있습니다.",
    "--checkpoints": "0스텝부터 마지막까지 남길 모델 스냅숏의 수. 처음에 더 촘촘합니다.",
    "--evaluate-every": "평가 사이의 스텝 수. 0이면 에폭이 끝날 때마다 평가합니다.",
    "--tensorboard": "TensorBoard용 로그도 씁니다.",
    "--resume": "폴더의 학습을 시작할 때의 옵션으로 이어서 합니다.",
    "--resume-with-other-data": "예나 레이블이 바뀌었어도 이어서 합니다.",
    "--train": "학습 파일.",
    "--dev": "가장 좋은 모델을 고르는 평가 파일. 기본값: `--train`에서 일부를 떼어 둡니다.",
    "--test": "끝난 뒤 가장 좋은 모델을 한 번 평가할 파일.",
    "--skip-bad-rows": "분명히 잘못된 행을 빼고 그 수를 셉니다. 기본값: 오류로 봅니다.",
    "--class-weights": "드문 클래스도 흔한 클래스만큼 중요해지도록 가중치를 둡니다.",
    "--multi-label": "레이블이 목록입니다. 한 텍스트에 여러 개가 있거나 없을 수 있습니다. "
    "`--label-columns`를 쓰면 자동으로 켜집니다.",
    "--matryoshka": "함께 학습할 짧은 벡터: 벡터의 처음 N차원.",
    "--max-score": "가능한 가장 큰 점수. 레이블을 이 값으로 나눕니다.",
    "--task": "무엇을 평가할지. 기본값: 모델의 과제.",
    "--bootstrap": "95% 신뢰 구간을 구할 재표본 수. 0이면 구하지 않습니다.",
    "--errors": "틀린 예측을 쓸 파일. 확신이 큰 순서입니다(.jsonl, .csv, .tsv, .parquet).",
    "--plot": "혼동 행렬이나 점수의 그림(.png, .svg, .pdf).",
    "info --plot": "학습 곡선을 그릴 파일(.png, .svg, .pdf).",
    "--text": "내장된 텍스트 대신 비교에 쓸 텍스트. 여러 번 쓸 수 있습니다.",
    "--tolerance": "허용하는 최대 차이. 0이면 비트까지 같아야 합니다.",
    "--dtype": "쓸 텐서의 자료형. auto는 체크포인트의 자료형을 그대로 씁니다.",
    "--heads": "벡터도 만들 수 있는 모델의 헤드를 내보냅니다.",
}
