// The scenes of the Korean article, in the form that scenes.js describes. Most of them test what
// only Korean can show: particles, the final consonants that select them, spaces, decomposed
// Hangul, and ambiguous words.
//
// If a single sentence might be an accident, a scene also counts over many sentences of its own.
// Each count is computed once and kept.

const SHIP = "어부들이 배를 타고 바다로 나갔다.";
const FATHERS = ["아버지가 방에 들어가신다.", "아버지 가방에 들어가신다."];
const HANGUL = "나는 한글을 읽는다.";
const BITES = ["개가 사람을 물었다.", "사람을 개가 물었다.", "사람이 개를 물었다."];
const AGES = ["몇 살이에요?", "몇 시예요?", "나이가 어떻게 되세요?"];

/** Common nouns and rarely written syllables. Half of each end in a consonant (받침). */
const NOUNS = [
  ..."책 밥 집 물 빵 꽃 가방 음식 병원 동생 신문 학생".split(" "),
  ..."사과 우유 고기 커피 친구 의사 학교 바다 노래 영화 시계 아버지".split(" "),
];
const RARE = [
  ..."갂 갢 갵 걵 곃 굑 궉 깩 껰 꿱 끤 냦".split(" "),
  ..."놰 뎨 듸 땨 뗘 뙈 뙤 뚀 뜌 뢔 먜 뭬".split(" "),
];

/** Agents, patients and verbs of more sentences like BITES. */
const DEEDS = [
  ["고양이", "쥐", "쫓았다"],
  ["경찰", "기자", "불렀다"],
  ["형", "동생", "때렸다"],
  ["선생님", "학생", "칭찬했다"],
  ["아이", "엄마", "안았다"],
  ["의사", "환자", "기다렸다"],
  ["남자", "여자", "좋아한다"],
  ["배우", "감독", "싫어한다"],
  ["친구", "의사", "만났다"],
  ["토끼", "사자", "보았다"],
  ["할머니", "손자", "찾았다"],
  ["가수", "배우", "사랑한다"],
];

/** Subjects of a sentence about being good at something. Film reviews suggest acting. */
const PEOPLE = [
  "선생님",
  "의사",
  "학생",
  "친구",
  "동생",
  "엄마",
  "아빠",
  "할머니",
  "누나",
  "기자",
  "가수",
  "요리사",
  "경찰",
  "간호사",
  "화가",
  "농부",
  "운전사",
  "회사원",
  "아이",
  "아저씨",
];

/** Ambiguous words, each with sentences for both of its senses. */
const SENSES = [
  [
    "배를",
    [
      "그는 배를 타고 섬으로 갔다.",
      "어부들이 배를 타고 바다로 나갔다.",
      "사람들이 배를 저어 강을 건넜다.",
      "우리는 배를 타고 여행했다.",
      "항구에서 배를 기다렸다.",
      "선장이 배를 몰고 떠났다.",
      "폭풍이 배를 뒤집었다.",
      "부두에 배를 세워 두었다.",
      "낚시꾼이 배를 빌렸다.",
      "멀리 지나가는 배를 보았다.",
    ],
    [
      "그는 배를 깎아서 먹었다.",
      "아이들이 배를 깎아서 먹었다.",
      "할머니가 달콤한 배를 주셨다.",
      "시장에서 배를 세 개 샀다.",
      "사과와 배를 접시에 담았다.",
      "가을에는 배를 따서 판다.",
      "잘 익은 배를 골랐다.",
      "배를 갈아서 고기에 넣었다.",
      "냉장고에서 배를 꺼냈다.",
      "후식으로 배를 먹었다.",
    ],
  ],
  [
    "눈이",
    [
      "밤새 눈이 많이 내렸다.",
      "산에 하얀 눈이 쌓였다.",
      "겨울에는 눈이 자주 온다.",
      "길에 눈이 녹았다.",
      "창밖에 눈이 내린다.",
      "어제 첫 눈이 왔다.",
      "지붕 위의 눈이 얼었다.",
      "내일은 눈이 그친다.",
      "마당에 눈이 가득하다.",
      "바람과 함께 눈이 날렸다.",
    ],
    [
      "오늘은 눈이 많이 아프다.",
      "아이의 맑은 눈이 예쁘다.",
      "어두워서 눈이 잘 안 보인다.",
      "그녀는 눈이 크다.",
      "울어서 눈이 부었다.",
      "졸려서 눈이 감긴다.",
      "책을 오래 봐서 눈이 피곤하다.",
      "고양이는 눈이 파랗다.",
      "안경을 벗으니 눈이 흐리다.",
      "먼지가 들어가서 눈이 따갑다.",
    ],
  ],
  [
    "말을",
    [
      "그는 말을 타고 달렸다.",
      "농부가 말을 돌본다.",
      "목장에서 말을 키운다.",
      "기수가 말을 몰았다.",
      "우리는 제주도에서 말을 탔다.",
      "들판에서 말을 보았다.",
      "마차에 말을 매었다.",
      "아이가 말을 쓰다듬었다.",
      "장군이 말을 세웠다.",
      "하얀 말을 한 마리 샀다.",
    ],
    [
      "그는 말을 하지 않았다.",
      "친구가 말을 걸었다.",
      "회의에서 말을 아꼈다.",
      "아이가 말을 배운다.",
      "우리는 전화로 말을 했다.",
      "선생님의 말을 들었다.",
      "갑자기 말을 멈추었다.",
      "나쁜 말을 하면 안 된다.",
      "그녀는 말을 빨리 한다.",
      "어려운 말을 쉽게 풀었다.",
    ],
  ],
];

/** Returns whether a word ends in a consonant (받침), from the code of its last Hangul syllable. */
const endsInConsonant = (word) => (word.charCodeAt(word.length - 1) - 0xac00) % 28 > 0;
const withParticle = (word, [afterConsonant, afterVowel]) =>
  word + (endsInConsonant(word) ? afterConsonant : afterVowel);
const subject = (word) => withParticle(word, ["이", "가"]);
const object = (word) => withParticle(word, ["을", "를"]);
const topic = (word) => withParticle(word, ["은", "는"]);

/** Returns the index and the pieces of the first word of a text that starts with some letters. */
function wordFrom(what, letters) {
  const pieces = what.tokens.map((token) => token.piece);
  const from = pieces.findIndex((piece) => piece.startsWith(letters));
  let end = from + 1;
  while (from >= 0 && pieces[end]?.startsWith("##")) {
    end += 1;
  }
  return { place: from, pieces: pieces.slice(Math.max(from, 0), end) };
}

const wordVector = (what, place) => what.steps.get("embeddings.word").row(place);
const unknownIn = (tokens) => tokens.filter((token) => token.piece === "[UNK]").length;

/** Returns the sentence vector of a text, the mean of its last states. */
async function sentenceVector(text, depth = sizes.layers) {
  return meanState(await live.compute({ text }), depth);
}

/** Returns the last states at the [MASK] of many texts, one row each. */
async function maskedStates(texts) {
  const rows = [];
  for (const text of texts) {
    const what = await live.compute({ text });
    rows.push(hiddenState(sizes.layers, what).row(placeOf(what, "[MASK]")));
  }
  return { shape: [rows.length, sizes.hidden], data: Float32Array.from(rows.flat()) };
}

/** Returns the probability of each piece in every row of states. */
const sharesOf = (states, pieces) =>
  Promise.all(
    pieces.map((piece) => live.ask("shares", { word: live.tokenizer.ids.get(piece), states })),
  );

/** Whether the model predicts the right particle after a word: 을 after a consonant, else 를. */
const particlesAfter = new Experiment(
  "particles",
  () => [...NOUNS, ...RARE],
  async (word) => {
    const states = await maskedStates([`나는 ${word}[MASK] 읽었다.`]);
    const [[afterConsonant], [afterVowel]] = await sharesOf(states, ["##을", "##를"]);
    return afterConsonant > afterVowel === endsInConsonant(word);
  },
);

/** Counts the right particles after some words: [after a consonant, after a vowel]. */
function rightParticles(words) {
  const items = particlesAfter.items();
  const right = words.filter((word) => particlesAfter.results[items.indexOf(word)]);
  return [true, false].map((kind) => right.filter((word) => endsInConsonant(word) === kind).length);
}

/** Cosines of a sentence with its other word order, and with swapped particles. */
const deeds = new Experiment(
  "deeds",
  () => DEEDS,
  async ([agent, patient, verb]) => {
    const texts = [
      `${subject(agent)} ${object(patient)} ${verb}.`,
      `${object(patient)} ${subject(agent)} ${verb}.`,
      `${subject(patient)} ${object(agent)} ${verb}.`,
    ];
    const [plain, ...others] = await Promise.all(texts.map((text) => sentenceVector(text)));
    return others.map((other) => cosine(plain, other));
  },
);

/** Returns the states of a word in the sentences of its two senses: [sense][sentence][depth]. */
async function statesOfSenses([word, ...senses]) {
  const found = [];
  for (const texts of senses) {
    const own = [];
    for (const text of texts) {
      const what = await live.compute({ text });
      const place = placeOf(what, word);
      own.push(Array.from({ length: sizes.layers + 1 }, (_, d) => hiddenState(d, what).row(place)));
    }
    found.push(own);
  }
  return found;
}

/**
 * Counts the sentences in which a word is closer, on average, to its own sense than to the other.
 */
function nearerToOwnSense(senses, depth) {
  let nearer = 0;
  senses.forEach((own, s) => {
    own.forEach((states) => {
      const alike = (others) =>
        average(others.filter((it) => it !== states).map((it) => cosine(it[depth], states[depth])));
      nearer += alike(own) > alike(senses[1 - s]) ? 1 : 0;
    });
  });
  return nearer;
}

/** For each ambiguous word, how many of its sentences are nearer to their own sense, by depth. */
const ownSenses = new Experiment(
  "own senses",
  () => SENSES,
  async (word) => {
    const states = await statesOfSenses(word);
    return Array.from({ length: sizes.layers + 1 }, (_, depth) => nearerToOwnSense(states, depth));
  },
);

/** The best prediction of what a person is good at. */
const talents = new Experiment(
  "talents",
  () => PEOPLE,
  async (person) => {
    const states = await maskedStates([`${topic(person)} [MASK]를 잘한다.`]);
    const [[[word]]] = await live.words(states);
    return word;
  },
);

/** Returns the probabilities of 을 and 를 at the [MASK] of a computed text. */
async function bothParticles(what) {
  const shares = await sharesOf(oneRow(what, placeOf(what, "[MASK]")), ["##을", "##를"]);
  return shares.map(([share]) => share);
}

const SIGNIFICANT = 15; // of 20 sentences, which a coin reaches in 2 of 100 tries

const KOREAN = [
  prologueScene(),
  {
    id: "eojeol",
    set: () => ({ section: "text", text: SHIP, token: placeIn(SHIP, "배를") }),
    act: () => ({ text: "어부들이 배도 타고 바다로 나갔다.", token: 4 }),
    measure: async (before, now) => {
      const [a, b] = [before, now].map((what) => wordFrom(what, "배"));
      const scale = await keep("scale", () => live.compute({ text: "배를 사람을" }));
      const alike = cosine(wordVector(before, a.place), wordVector(now, b.place));
      const far = cosine(wordVector(scale, 1), wordVector(scale, 2));
      return {
        rows: [
          ["pieces", a.pieces.join(" · "), b.pieces.join(" · ")],
          ["count", before.tokens.length, now.tokens.length],
          ["alike", brief(1), brief(alike)],
          ["far", "", brief(far)],
        ],
        outcome: choiceOf(b.pieces.length === 1, unknownIn(now.tokens) === 0),
        values: {
          pieces: b.pieces.join(" "),
          first: b.pieces[0],
          alike: brief(alike),
          far: brief(far),
        },
      };
    },
    own: (before, now) => [
      ["count", before.tokens.length, now.tokens.length],
      ["unknown", unknownIn(before.tokens), unknownIn(now.tokens)],
      ["word", ...[before, now].map((what) => wordFrom(what, "배").pieces.join(" · ") || "–")],
    ],
  },
  {
    id: "spaces",
    set: () => ({ section: "text", text: FATHERS[0], token: 1 }),
    act: () => ({ text: FATHERS[0].replaceAll(" ", "") }),
    measure: async (before, now) => {
      const readings = await Promise.all(FATHERS.map((text) => sentenceVector(text)));
      const alike = (what) =>
        readings.map((reading) => brief(cosine(reading, meanState(what, sizes.layers))));
      const [a, b] = [before, now].map(alike);
      return {
        rows: [
          ["pieces", inner(before).join(" · "), inner(now).join(" · ")],
          ["room", a[0], b[0]],
          ["bag", a[1], b[1]],
        ],
        outcome: choiceOf(Number(b[0]) > Number(b[1]), Number(b[1]) > Number(b[0])),
        values: {
          pieces: inner(now)
            .join(" ")
            .replace(/ \p{P}+$/u, ""),
          room: b[0],
          bag: b[1],
        },
      };
    },
  },
  {
    id: "jamo",
    set: () => ({ section: "text", text: HANGUL, token: placeIn(HANGUL, "한글") }),
    act: () => ({ text: HANGUL.normalize("NFD") }),
    measure: (before, now) => {
      const { tokenizer } = live;
      const lower = new WordPiece({ ...tokenizer, do_lower_case: true, strip_accents: true });
      const lowered = (what) => unknownIn(lower.encode(what.request.text, null, 0));
      const plain = [before, now].map(inner);
      const unknown = unknownIn(now.tokens);
      const equal = plain[0].join(" ") === plain[1].join(" ");
      return {
        rows: [
          ["characters", ...[before, now].map((what) => Array.from(what.request.text).length)],
          ["pieces", ...plain.map((pieces) => pieces.join(" · "))],
          ["unknown", unknownIn(before.tokens), unknown],
          ["lower", lowered(before), lowered(now)],
        ],
        outcome: choiceOf(equal, unknown === 0),
        values: { unknown, before: unknownIn(before.tokens), lower: lowered(before) },
      };
    },
    own: (before, now) => [
      ["characters", ...[before, now].map((what) => Array.from(what.request.text).length)],
      ["unknown", unknownIn(before.tokens), unknownIn(now.tokens)],
    ],
  },
  {
    id: "place",
    set: () => ({ section: "embeddings", text: BITES[0], token: placeIn(BITES[0], "사람을") }),
    act: () => ({ text: BITES[1], token: placeIn(BITES[1], "사람을") }),
    measure: (before, now) => vectorsOfPlace(before, now, "사람을"),
    own: (before, now) => sameWordRows(before, now, "사람을"),
  },
  {
    id: "order",
    concerns: ["other", "same", "depth"],
    set: () => ({
      section: "compare",
      text: BITES[0],
      other: BITES[1],
      same: BITES[2],
      unit: "sentences",
      token: 1,
      depth: 0,
    }),
    act: () => ({ depth: sizes.layers }),
    experiments: () => [deeds],
    measure: async () => {
      const rows = await comparedRows(sentenceCosine);
      const { results } = deeds;
      const many = results.filter(([order, particles]) => order > particles).length;
      const [order, particles] = rows.map(([, , value]) => value);
      return {
        rows: [...rows, ["many", "", shareOf(many, results.length)]],
        heads: ["h0", `h${state.depth}`],
        outcome: choiceOf(Number(order) > Number(particles), Number(particles) > Number(order)),
        values: { order, particles, many: shareOf(many, results.length) },
      };
    },
    own: () => comparedRows(sentenceCosine),
  },
  headScene({ text: SHIP, longer: `${SHIP} 바람이 세게 불었다.`, query: 4, key: 5 }),
  {
    id: "heads",
    concerns: ["layer", "head", "rule"],
    set: () => ({
      section: "attention",
      text: "오래전에 본 영화인데 지금 다시 봐도 정말 재미있다.",
      token: 3,
      key: 2,
      rule: "previous",
      ...namedHead(example("heads")),
    }),
    act: () => ({}),
    experiments: () => [evidence],
    figure: evidenceFigure,
    measure: measurePattern,
    own: ownPattern,
  },
  LAYER_SCENE,
  {
    id: "senses",
    concerns: ["other", "same", "depth"],
    set: () => ({
      section: "compare",
      text: SENSES[0][1][0],
      other: SENSES[0][2][0],
      same: SENSES[0][1][3],
      token: placeIn(SENSES[0][1][0], "배를"),
      depth: 0,
    }),
    act: () => ({ depth: sizes.layers }),
    experiments: () => [ownSenses],
    measure: () => {
      const total = 2 * SENSES[0][1].length;
      const last = ownSenses.results.map((depths) => depths.at(-1));
      const nouns = SENSES.map(([word]) => word.slice(0, -1));
      const list = (keepsApart) =>
        nouns
          .map((noun, i) => [noun, last[i]])
          .filter(([, count]) => count >= SIGNIFICANT === keepsApart)
          .map(([noun, count]) => `${noun} ${count}`)
          .join(", ");
      return {
        rows: SENSES.map(([word], i) => [
          word,
          shareOf(ownSenses.results[i][0], total),
          shareOf(last[i], total),
        ]),
        heads: ["h0", `h${sizes.layers}`],
        outcome: choiceOf(
          last.every((count) => count >= SIGNIFICANT),
          last.some((count) => count >= SIGNIFICANT),
        ),
        values: {
          depth: sizes.layers,
          apart: list(true),
          mixed: list(false),
          least: SIGNIFICANT,
          total,
        },
      };
    },
    own: () => ownComparison(),
  },
  {
    id: "patch",
    concerns: ["layer", "head"],
    set: () => {
      const text = "낡은 배를 [MASK] 싶다.";
      return {
        section: "attention",
        text,
        token: placeIn(text, "[MASK]"),
        key: placeIn(text, "배를"),
        ...namedHead(example("patch")),
      };
    },
    act: () => ({ text: "달콤한 배를 [MASK] 싶다." }),
    figure: patchFigure,
    measure: async (before, now) => {
      const { layer, head } = state;
      const both = [before, now];
      const values = (what, own = layer) => what.steps.get(`layer.${own}.attention.probabilities`);
      const share = (what, own, at) =>
        values(what, own).at(at, placeOf(what, "[MASK]"), placeOf(what, "배를"));
      const [a, b] = both.map((what) => share(what, layer, head));
      const others = everyHead()
        .filter(([own, at]) => own !== layer || at !== head)
        .map(([own, at]) => Math.abs(share(now, own, at) - share(before, own, at)));
      const control = average(others);
      const { real, rules } = patternRules(now.tokens);
      const previous = patternShare(values(now), head, real, rules.previous);
      const best = await Promise.all(both.map((what) => answersOf(what)));
      const outcome = choiceOf(b < a - control, Math.abs(a - b) <= control);
      return {
        rows: [
          ["mask.noun", brief(a), brief(b)],
          ["others", "", brief(control)],
          ["previous", "", brief(previous)],
          ["answer", ...best.map(saidWords)],
        ],
        outcome,
        values: {
          before: brief(a),
          after: brief(b),
          control: brief(control),
          previous: brief(previous),
          old: best[0][0][0],
          new: best[1][0][0],
        },
      };
    },
    own: (before, now) => [
      [
        "pair.share",
        ...[before, now].map((what) => {
          const { name, share } = chosenPair(what);
          return `${name}: ${brief(share)}`;
        }),
      ],
    ],
  },
  {
    id: "batchim",
    set: () => {
      const text = "나는 책[MASK] 읽었다.";
      return { section: "predictions", text, token: placeIn(text, "[MASK]") };
    },
    act: () => ({ text: "나는 뙤[MASK] 읽었다." }),
    experiments: () => [particlesAfter],
    measure: async (before, now) => {
      const [nouns, rare] = [NOUNS, RARE].map(rightParticles);
      const half = NOUNS.length / 2;
      const [old, [consonant, vowel]] = await Promise.all([before, now].map(bothParticles));
      return {
        rows: [
          ["##을", ...[old[0], consonant].map(brief)],
          ["##를", ...[old[1], vowel].map(brief)],
          ["nouns", ...nouns.map((right) => shareOf(right, half))],
          ["rare", ...rare.map((right) => shareOf(right, half))],
        ],
        outcome: choiceOf(vowel > consonant, true),
        values: {
          nouns: shareOf(nouns[0] + nouns[1], NOUNS.length),
          consonant: shareOf(rare[0], half),
          vowel: shareOf(rare[1], half),
        },
      };
    },
    own: async (before, now) => {
      const both = [before, now];
      const shares = await Promise.all(
        both.map(async (what) => (placeOf(what, "[MASK]") < 0 ? null : bothParticles(what))),
      );
      return ["##을", "##를"].map((name, i) => [
        name,
        ...shares.map((own) => (own ? brief(own[i]) : "–")),
      ]);
    },
  },
  SIDES_SCENE,
  {
    id: "reviews",
    set: () => {
      const text = "그 배우는 [MASK]를 잘한다.";
      return { section: "predictions", text, token: placeIn(text, "[MASK]") };
    },
    act: () => {
      const text = "선생님은 [MASK]를 잘한다.";
      return { text, token: placeIn(text, "[MASK]") };
    },
    experiments: () => [talents],
    measure: async (before, now) => {
      const acting = talents.results.filter((word) => word === "연기").length;
      const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
      return {
        rows: [
          ["words", saidWords(a), saidWords(b)],
          ["acting", "", shareOf(acting, PEOPLE.length)],
        ],
        outcome: choiceOf(b[0][0] === "영어", b[0][0] === "연기"),
        values: { said: b[0][0], acting: shareOf(acting, PEOPLE.length) },
      };
    },
  },
  PAIR_SCENE,
  {
    id: "meaning",
    concerns: ["other", "same", "depth"],
    set: () => ({
      section: "compare",
      text: AGES[0],
      other: AGES[1],
      same: AGES[2],
      unit: "sentences",
      token: 2,
      depth: 0,
    }),
    act: () => ({ depth: sizes.layers }),
    experiments: () => [paraphrases, nearest],
    measure: async () => {
      const { results } = paraphrases;
      const closer = (name) =>
        shareOf(results.filter((own) => own[name][1] > own[name][0]).length, results.length);
      const among = (name) =>
        shareOf(nearest.results.filter((own) => own[name]).length, results.length);
      const wins = results.filter(({ last }) => last[1] > last[0]).length;
      return {
        rows: [
          ...(await comparedRows(sentenceCosine)),
          ["closer", closer("first"), closer("last")],
          ["nearest", among("first"), among("last")],
        ],
        heads: ["h0", `h${state.depth}`],
        outcome: choiceOf(wins > 0.75 * results.length, wins > 0.25 * results.length),
        values: {
          depth: state.depth,
          first: closer("first"),
          last: closer("last"),
          nearest: among("last"),
          nearest_first: among("first"),
        },
      };
    },
    own: () => comparedRows(sentenceCosine),
  },
  TASK_SCENE,
  ...tuningScenes(),
  ...depthScenes(),
  TRAINING_SCENE,
  STEP_SCENE,
  SEVERAL_SCENE,
  TRANSFORM_SCENE,
  ...neuronScenes(),
];
