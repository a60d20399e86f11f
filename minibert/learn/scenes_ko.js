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
  if (from < 0) {
    return { place: clamp(state.token, 0, pieces.length - 1), pieces: [] };
  }
  let end = from + 1;
  while (pieces[end]?.startsWith("##")) {
    end += 1;
  }
  return { place: from, pieces: pieces.slice(from, end) };
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
    const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
    rows.push(hiddenState(sizes.layers, what).row(place));
  }
  return { shape: [rows.length, sizes.hidden], data: Float32Array.from(rows.flat()) };
}

/** Returns the probability of each piece in every row of states. */
const sharesOf = (states, pieces) =>
  Promise.all(
    pieces.map((piece) => live.ask("shares", { word: live.tokenizer.ids.get(piece), states })),
  );

/**
 * Counts the words after which the model predicts the right particle: 을 after a consonant, 를 after
 * a vowel.
 */
async function rightParticles(words) {
  const states = await maskedStates(words.map((word) => `나는 ${word}[MASK] 읽었다.`));
  const [afterConsonant, afterVowel] = await sharesOf(states, ["##을", "##를"]);
  const right = words.map((word, i) => afterConsonant[i] > afterVowel[i] === endsInConsonant(word));
  const of = (kind) => right.filter((own, i) => own && endsInConsonant(words[i]) === kind).length;
  return { consonant: of(true), vowel: of(false) };
}

/**
 * Counts the DEEDS whose vector changes more with swapped particles than with another word order.
 */
async function particlesRead() {
  let found = 0;
  for (const [agent, patient, verb] of DEEDS) {
    const texts = [
      `${subject(agent)} ${object(patient)} ${verb}.`,
      `${object(patient)} ${subject(agent)} ${verb}.`,
      `${subject(patient)} ${object(agent)} ${verb}.`,
    ];
    const [plain, order, particles] = await Promise.all(texts.map((text) => sentenceVector(text)));
    found += cosine(plain, order) > cosine(plain, particles) ? 1 : 0;
  }
  return found;
}

/** Returns the states of a word in the sentences of its two senses: [sense][sentence][depth]. */
async function statesOfSenses([word, ...senses]) {
  const found = [];
  for (const texts of senses) {
    const own = [];
    for (const text of texts) {
      const what = await live.compute({ text });
      const place = what.tokens.findIndex((token) => token.piece === word);
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

/** Returns the probabilities of 을 and 를 at the [MASK] of a computed text. */
async function bothParticles(what) {
  const shares = await sharesOf(oneRow(what, placeOf(what, "[MASK]")), ["##을", "##를"]);
  return shares.map(([share]) => share);
}
const countParticles = () => Promise.all([rightParticles(NOUNS), rightParticles(RARE)]);

/** Counts the PEOPLE whose best prediction is acting (연기). */
async function countActing() {
  const texts = PEOPLE.map((person) => `${topic(person)} [MASK]를 잘한다.`);
  const best = await live.words(await maskedStates(texts));
  return best.filter(([[word]]) => word === "연기").length;
}

async function countSenses() {
  const found = [];
  for (const own of SENSES) {
    found.push(await statesOfSenses(own));
  }
  return found;
}

/** Starts a count in the background while the reader reads. */
const inAdvance = (name, count) => () => {
  counted(name, count);
  return {};
};

const SIGNIFICANT = 15; // of 20 sentences, which a coin reaches in 2 of 100 tries

const KOREAN = [
  {
    id: "eojeol",
    set: () => ({ section: "text", text: SHIP, token: placeIn(SHIP, "배를") }),
    act: () => ({ text: "어부들이 배도 타고 바다로 나갔다.", token: 4 }),
    measure: async (before, now) => {
      const [a, b] = [before, now].map((what) => wordFrom(what, "배"));
      const scale = await counted("scale", () => live.compute({ text: "배를 사람을" }));
      const alike = cosine(wordVector(before, a.place), wordVector(now, b.place));
      const far = cosine(wordVector(scale, 1), wordVector(scale, 2));
      return {
        rows: [
          ["pieces", a.pieces.join(" · "), b.pieces.join(" · ") || "–"],
          ["count", before.tokens.length, now.tokens.length],
          ["alike", written(1), written(alike)],
          ["far", "", written(far)],
        ],
        outcome: choiceOf(b.pieces.length === 1, b.pieces.length > 1, unknownIn(now.tokens) > 0),
        values: {
          pieces: b.pieces.join(" "),
          first: b.pieces[0],
          alike: alike.toFixed(2),
          far: far.toFixed(2),
        },
      };
    },
  },
  {
    id: "spaces",
    set: () => ({ section: "text", text: FATHERS[0], token: 1 }),
    act: () => ({ text: FATHERS[0].replaceAll(" ", "") }),
    measure: async (before, now) => {
      const readings = await counted("fathers", () =>
        Promise.all(FATHERS.map((text) => sentenceVector(text))),
      );
      const alike = (what) =>
        readings.map((reading) => cosine(reading, meanState(what, sizes.layers)));
      const [a, b] = [before, now].map(alike);
      const outcome = choiceOf(b[0] > b[1] + 0.02, b[1] > b[0] + 0.02);
      return {
        rows: [
          ["pieces", inner(before).join(" · "), inner(now).join(" · ")],
          ["room", written(a[0]), written(b[0])],
          ["bag", written(a[1]), written(b[1])],
        ],
        outcome,
        verdict: now.request.text.includes(" ") ? 3 : outcome,
        values: {
          pieces: inner(now)
            .join(" ")
            .replace(/ \p{P}+$/u, ""),
          room: b[0].toFixed(2),
          bag: b[1].toFixed(2),
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
  },
  {
    id: "order",
    set: () => ({
      section: "compare",
      text: BITES[0],
      other: BITES[1],
      same: BITES[2],
      token: 1,
      depth: 0,
    }),
    then: inAdvance("deeds", particlesRead),
    act: () => ({ depth: sizes.layers }),
    done: () => state.depth > 0,
    measure: async () => {
      const texts = await threeTexts();
      if (!texts) {
        return null;
      }
      const many = await counted("deeds", particlesRead);
      const alike = (depth, other) => sentenceCosine(texts, depth, other);
      const row = (other) => [
        state[other === 1 ? "other" : "same"],
        written(alike(0, other)),
        written(alike(state.depth, other)),
      ];
      const [order, particles] = [1, 2].map((other) => alike(state.depth, other));
      return {
        rows: [row(1), row(2), ["many", "", `${many} / ${DEEDS.length}`]],
        heads: ["h0", `h${state.depth}`],
        outcome: choiceOf(order > particles + 0.005, particles > order + 0.005),
        values: {
          depth: state.depth,
          order: order.toFixed(3),
          particles: particles.toFixed(3),
          many,
          all: DEEDS.length,
        },
      };
    },
  },
  {
    id: "heads",
    set: () => ({
      section: "attention",
      text: "오래전에 본 영화인데 지금 다시 봐도 정말 재미있다.",
      token: 3,
      key: 2,
    }),
    then: () => {
      const { real, rules } = patternRules(tokens);
      evidence.rule = "previous";
      return largestHead((values, head) => patternShare(values, head, real, rules.previous));
    },
    act: () => gatherEvidence(),
    done: () => evidence.count > 0,
    figure: evidenceFigure,
    measure: measurePattern,
  },
  LAYER_SCENE,
  {
    id: "senses",
    set: () => ({
      section: "compare",
      text: SENSES[0][1][0],
      other: SENSES[0][2][0],
      same: SENSES[0][1][3],
      token: placeIn(SENSES[0][1][0], "배를"),
      depth: 0,
    }),
    then: inAdvance("senses", countSenses),
    act: () => ({ depth: sizes.layers }),
    done: () => state.depth > 0,
    measure: async () => {
      const texts = await threeTexts();
      if (!texts) {
        return null;
      }
      const all = await counted("senses", countSenses);
      const at = (depth) => all.map((senses) => nearerToOwnSense(senses, depth));
      const [first, last] = [at(0), at(state.depth)];
      const total = 2 * SENSES[0][1].length;
      const nouns = SENSES.map(([word]) => word.slice(0, -1));
      const apart = nouns.filter((_, i) => last[i] >= SIGNIFICANT);
      const mixed = nouns.filter((_, i) => last[i] < SIGNIFICANT);
      const own = (depth) => {
        const place = clamp(state.token, 0, texts[0].tokens.length - 1);
        const alike = (other) => compareCosine(depth, place, twin(texts[other]), other);
        return written(alike(2) - alike(1));
      };
      return {
        rows: [
          ...SENSES.map(([word], i) => [word, `${first[i]} / ${total}`, `${last[i]} / ${total}`]),
          ["shown", own(0), own(state.depth)],
        ],
        heads: ["h0", `h${state.depth}`],
        outcome: choiceOf(mixed.length === 0, apart.length > 0),
        values: {
          depth: state.depth,
          apart: apart.join(", "),
          mixed: mixed.join(", "),
          least: SIGNIFICANT,
          total,
        },
      };
    },
  },
  {
    id: "patch",
    set: () => {
      const text = "낡은 배를 [MASK] 싶다.";
      return {
        section: "attention",
        text,
        token: placeIn(text, "[MASK]"),
        key: placeIn(text, "배를"),
      };
    },
    then: contrastingHead,
    act: () => ({ text: "달콤한 배를 [MASK] 싶다." }),
    figure: patchFigure,
    measure: async (before, now) => {
      const { layer, head } = state;
      const both = [before, now];
      const values = (what) => what.steps.get(`layer.${layer}.attention.probabilities`);
      const [a, b] = both.map((what) =>
        values(what).at(head, placeOf(what, "[MASK]"), placeOf(what, "배를")),
      );
      const { real, rules } = patternRules(now.tokens);
      const previous = patternShare(values(now), head, real, rules.previous) ?? 0;
      const best = await Promise.all(both.map((what) => answersOf(what)));
      const [old, current] = best.map((words) => words[0]?.[0] ?? "–");
      const outcome = choiceOf(b < a - 0.1, Math.abs(a - b) <= 0.1);
      return {
        rows: [
          ["mask.noun", written(a), written(b)],
          ["previous", "", written(previous)],
          ["answer", ...best.map(saidWords)],
        ],
        outcome,
        verdict: old === current ? 3 : outcome,
        values: {
          before: a.toFixed(2),
          after: b.toFixed(2),
          previous: previous.toFixed(2),
          old,
          new: current,
        },
      };
    },
  },
  {
    id: "batchim",
    set: () => {
      const text = "나는 책[MASK] 읽었다.";
      return { section: "predictions", text, token: placeIn(text, "[MASK]") };
    },
    then: inAdvance("particles", countParticles),
    act: () => ({ text: "나는 뙤[MASK] 읽었다." }),
    measure: async (before, now) => {
      const [nouns, rare] = await counted("particles", countParticles);
      const half = NOUNS.length / 2;
      const [old, [consonant, vowel]] = await Promise.all([before, now].map(bothParticles));
      const noun = now.request.text.match(/([가-힣]+)\s*\[MASK\]/)?.[1] ?? "";
      const right = noun !== "" && consonant > vowel === endsInConsonant(noun);
      const knowsRule = rare.consonant + rare.vowel >= 0.75 * RARE.length;
      const outcome = choiceOf(vowel > consonant, consonant > vowel);
      return {
        rows: [
          ["##을", ...[old[0], consonant].map((share) => written(share))],
          ["##를", ...[old[1], vowel].map((share) => written(share))],
          ["nouns", "", `${nouns.consonant} / ${half}, ${nouns.vowel} / ${half}`],
          ["rare", "", `${rare.consonant} / ${half}, ${rare.vowel} / ${half}`],
        ],
        outcome,
        verdict: noun !== "" && knowsRule ? 3 : choiceOf(noun === "", right),
        values: {
          noun,
          said: outcome === 0 ? "를" : "을",
          expected: endsInConsonant(noun || "가") ? "을" : "를",
          nouns: nouns.consonant + nouns.vowel,
          all: NOUNS.length,
          half,
          consonant: rare.consonant,
          vowel: rare.vowel,
        },
      };
    },
  },
  SIDES_SCENE,
  {
    id: "reviews",
    set: () => {
      const text = "그 배우는 [MASK]를 잘한다.";
      return { section: "predictions", text, token: placeIn(text, "[MASK]") };
    },
    then: inAdvance("people", countActing),
    act: () => {
      const text = "선생님은 [MASK]를 잘한다.";
      return { text, token: placeIn(text, "[MASK]") };
    },
    measure: async (before, now) => {
      const acting = await counted("people", countActing);
      const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
      const said = b[0]?.[0] ?? "–";
      return {
        rows: [
          ["words", saidWords(a), saidWords(b)],
          ["acting", "", `${acting} / ${PEOPLE.length}`],
        ],
        outcome: choiceOf(said === "영어", said === "연기"),
        values: { said, acting, all: PEOPLE.length },
      };
    },
  },
  PAIR_SCENE,
  {
    id: "meaning",
    set: () => ({
      section: "compare",
      text: AGES[0],
      other: AGES[1],
      same: AGES[2],
      token: 2,
      depth: 0,
    }),
    act: () => ({ depth: sizes.layers }),
    done: () => state.depth > 0,
    measure: async () => {
      const texts = await threeTexts();
      if (!texts) {
        return null;
      }
      const alike = (depth, other) => sentenceCosine(texts, depth, other);
      const row = (other) => [
        state[other === 1 ? "other" : "same"],
        written(alike(0, other)),
        written(alike(state.depth, other)),
      ];
      const closer = (depth) => (alike(depth, 1) > alike(depth, 2) ? 0 : 1);
      const outcome = closer(state.depth);
      return {
        rows: [row(1), row(2)],
        heads: ["h0", `h${state.depth}`],
        outcome,
        verdict: outcome === 1 && closer(0) === 1 ? 2 : outcome,
        values: { depth: state.depth },
      };
    },
  },
  TASK_SCENE,
];
