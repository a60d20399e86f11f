// The scenes of the English article: their initial state, their action, and the measurement of the
// verdict.
//
// A scene is {id, set, then?, act, done?, measure, figure?}. `set` and `act` return changes of the
// state, and `then` returns changes that need the scene's results. `measure(before, now)` compares
// the scene's initial text with the current one. It returns {rows: [[label, before, after], ...],
// heads?, outcome, verdict?, values?}. `outcome` is the index of the choice that turned out right,
// and `verdict` the index of the text that explains it. Everything is computed, nothing is known
// beforehand.

/** Returns the state that every scene starts from. */
const BLANK = () => ({
  text: page.texts[0],
  pair: null,
  masked: [],
  off: [],
  sides: "both",
  pad: 0,
  type: null,
  ask: "",
  pinned: [],
  other: "",
  same: "",
  unit: "words",
  special: true,
  threshold: 0,
  stage: "probabilities",
  view: "lines",
  tour: -1,
  depth: sizes.layers,
  token: 0,
  key: 0,
  row: 0,
  step: 0,
  number: 0,
  snapshot: 0,
});

const aging = ["How old are you?", "How tall are you?", "What is your age?"];
const banks = [
  "He walked along the bank of the river.",
  "She works at the bank in the city.",
  "She swam to the bank of the river.",
];

/**
 * Returns the index of a word in a text, or in a computed text. If the reader has removed the word,
 * the chosen token is used.
 */
const placeIn = (text, word) => live.tokens({ text }).findIndex((token) => token.piece === word);
function placeOf(what, word) {
  const place = what.tokens.findIndex((token) => token.piece === word);
  return place < 0 ? clamp(state.token, 0, what.tokens.length - 1) : place;
}

/** Returns the index of the first condition that holds, or their number if none does. */
function choiceOf(...conditions) {
  const first = conditions.indexOf(true);
  return first < 0 ? conditions.length : first;
}

const inner = (what) =>
  what.tokens.map((token) => token.piece).filter((piece) => !/^\[(CLS|SEP)\]$/.test(piece));
const sortedPieces = (what) => inner(what).sort().join(" ");
const firstNumbers = (row) =>
  `${row
    .slice(0, 3)
    .map((value) => value.toFixed(3))
    .join("  ")} …`;
const meanState = (what, depth) =>
  centerOf(what.tokens.map((_, i) => hiddenState(depth, what).row(i)));
const centerOf = (rows) =>
  rows[0].map((_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length);

/** Returns the last state of one token, as input for the MLM head. */
const oneRow = (what, place) => ({
  shape: [1, sizes.hidden],
  data: Float32Array.from(hiddenState(sizes.layers, what).row(place)),
});

/** Returns the best words at the first [MASK] of a computed text, and caches them. */
async function answersOf(what) {
  const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
  if (place < 0) {
    return [];
  }
  what.answers ??= live.words(oneRow(what, place)).then(([best]) => best);
  return what.answers;
}
const saidWords = (best) =>
  best
    .slice(0, 3)
    .map(([word, share]) => `${word} ${share.toFixed(3)}`)
    .join(", ");

/** Returns the three sentences of the comparison, once they are computed. */
async function threeTexts() {
  if (!compared || compared.wish !== wished().join("\n")) {
    await compareTexts();
  }
  return compared?.length === 3 ? compared : null;
}

/**
 * Compares the chosen head's share for the chosen rule in the scene's own sentence and over many
 * sentences.
 */
function measurePattern(before) {
  const { layer, head } = state;
  const { rule } = evidence;
  const { real, rules } = patternRules(before.tokens);
  const values = before.steps.get(`layer.${layer}.attention.probabilities`);
  const share = patternShare(values, head, real, rules[rule]) ?? 0;
  const mean = evidenceOf(layer, head);
  const even = evidence.even[rule].mean;
  return {
    rows: [
      ["chosen", written(share), written(mean)],
      ["even", written(evenShare(before.tokens)[rule] ?? 0), written(even)],
      ["above", "", `${aboveChance()} / ${sizes.layers * sizes.heads}`],
    ],
    heads: ["one", "many"],
    open: evidence.count < page.lesson.sentences.length,
    outcome: choiceOf(mean > 2 * even && mean > 0.75 * share, mean > 2 * even),
    values: {
      layer,
      head,
      rule: t(`pattern.${rule}`),
      count: soFar(evidence.count, page.lesson.sentences.length),
      here: share.toFixed(2),
      mean: mean.toFixed(2),
      times: (mean / even).toFixed(1),
    },
  };
}

/**
 * Returns the head that attends most from the chosen token to the key, compared with other tokens.
 * A head that attends to the key from every token would say nothing about this one.
 */
function contrastingHead() {
  const { token, key } = state;
  const everyone = (values, head) => average(tokens.map((_, query) => values.at(head, query, key)));
  return largestHead((values, head) => values.at(head, token, key) - everyone(values, head));
}

const ENGLISH = [
  {
    id: "pieces",
    set: () => ({ section: "text", token: 1 }),
    act: () => ({ text: "The cat was blorfing on the mat." }),
    measure: (before, now) => {
      const unknown = (what) => inner(what).filter((piece) => piece === "[UNK]").length;
      const parts = (what) => inner(what).filter((piece) => piece.startsWith("##")).length;
      return {
        rows: [
          ["count", before.tokens.length, now.tokens.length],
          ["pieces", inner(before).join(" · "), inner(now).join(" · ")],
          ["unknown", unknown(before), unknown(now)],
        ],
        outcome: choiceOf(unknown(now) > 0, parts(now) > 0),
      };
    },
  },
  {
    id: "numbers",
    set: () => ({ section: "embeddings", text: banks[0], token: placeIn(banks[0], "bank") }),
    act: () => ({ text: banks[1], token: placeIn(banks[1], "bank") }),
    measure: async (before, now) => {
      const scale = await computeOnce(banks[2]);
      const [i, j, k] = [before, now, scale].map((what) => placeOf(what, "bank"));
      const first = (depth) => hiddenState(depth, before).row(i);
      const other = (depth) => cosine(first(depth), hiddenState(depth, now).row(j));
      const same = (depth) => cosine(first(depth), hiddenState(depth, scale).row(k));
      const last = sizes.layers;
      return {
        rows: [
          [
            "h0",
            firstNumbers(hiddenState(0, before).row(i)),
            firstNumbers(hiddenState(0, now).row(j)),
          ],
          ["alike", "h0", `h${last}`],
          ["alike.other", written(other(0)), written(other(last))],
          ["alike.same", written(same(0)), written(same(last))],
        ],
        outcome: choiceOf(other(0) > 0.9999, other(0) > 0.7),
        values: {
          first: written(other(0)),
          last: other(last).toFixed(2),
          scale: same(last).toFixed(2),
        },
      };
    },
  },
  {
    id: "place",
    set: () => ({
      section: "embeddings",
      text: "The dog bit the man.",
      token: placeIn("The dog bit the man.", "dog"),
    }),
    act: () => ({ text: "The man bit the dog.", token: placeIn("The man bit the dog.", "dog") }),
    measure: async (before, now) => {
      const passive = await computeOnce("The man was bitten by the dog.");
      const [i, j] = [before, now].map((what) => placeOf(what, "dog"));
      const names = ["word", "token_type", "position"];
      const row = (what, name, at) => what.steps.get(`embeddings.${name}`).row(at);
      const alike = names.map((name) => cosine(row(before, name, i), row(now, name, j)));
      const least = Math.min(...alike);
      const swapped = sortedPieces(before) === sortedPieces(now);
      const sentence = (what) =>
        written(cosine(meanState(before, sizes.layers), meanState(what, sizes.layers)));
      const outcome = least > 0.9999 ? 3 : alike.indexOf(least);
      return {
        rows: [
          ...[...names, "output"].map((name) => [
            name,
            firstNumbers(row(before, name, i)),
            firstNumbers(row(now, name, j)),
          ]),
          ["sentence", "", sentence(now)],
          ["passive", "", sentence(passive)],
        ],
        outcome,
        verdict: outcome === 2 && !swapped ? 4 : outcome,
        values: {
          alike: written(cosine(row(before, "output", i), row(now, "output", j))),
          sentence: Number(sentence(now)).toFixed(3),
          passive: Number(sentence(passive)).toFixed(3),
        },
      };
    },
  },
  {
    id: "head",
    set: () => ({
      section: "head",
      text: "The cat sat on the mat.",
      layer: 0,
      head: 0,
      token: 2,
      key: 3,
    }),
    act: () => ({ text: "The cat sat on the mat because the sun was warm." }),
    measure: (before, now) => {
      const at = [
        state.head,
        Math.min(state.token, before.tokens.length - 1),
        Math.min(state.key, before.tokens.length - 1),
      ];
      const of = (what, name) => what.steps.get(`layer.${state.layer}.attention.${name}`);
      const [scores, shares] = ["scores", "probabilities"].map((name) =>
        [before, now].map((what) => of(what, name).at(...at)),
      );
      const sums = [before, now].map((what) =>
        of(what, "probabilities")
          .row(at[0], at[1])
          .reduce((a, b) => a + b, 0),
      );
      const moved = ([a, b]) => Math.abs(a - b) > 0.0005;
      return {
        rows: [
          ["score", ...scores.map((value) => written(value))],
          ["share", ...shares.map((value) => written(value))],
          ["sum", ...sums.map((value) => written(value))],
        ],
        outcome: choiceOf(moved(scores), moved(shares)),
        values: { query: before.tokens[at[1]].piece, key: before.tokens[at[2]].piece },
      };
    },
  },
  {
    id: "heads",
    set: () => ({
      section: "attention",
      text: "The old man sat on the bank of the river.",
      token: 6,
      key: 1,
    }),
    // This head has a clear pattern in this sentence, but not in others.
    then: () => {
      evidence.rule = "same";
      return { layer: Math.min(4, sizes.layers - 1), head: Math.min(1, sizes.heads - 1) };
    },
    act: () => gatherEvidence(),
    done: () => evidence.count > 0,
    figure: evidenceFigure,
    measure: measurePattern,
  },
  {
    id: "it",
    set: () => {
      const text = "The animal did not cross the street because it was too tired.";
      const [token, key] = ["it", "animal"].map((word) => placeIn(text, word));
      return { section: "attention", text, token, key };
    },
    then: contrastingHead,
    act: () => ({ text: "The animal did not cross the street because it was too wide." }),
    figure: patchFigure,
    measure: async (before, now) => {
      const { layer, head } = state;
      const shareAt = (what, query, to) =>
        what.steps.get(`layer.${layer}.attention.probabilities`).at(head, query, placeOf(what, to));
      const share = (what, from, to) => shareAt(what, placeOf(what, from), to);
      const everyone = (what) => average(what.tokens.map((_, i) => shareAt(what, i, "animal")));
      const hidden = await Promise.all(
        [before, now].map((what) =>
          live.compute({ text: hideIt(what.request.text), off: what.request.off }),
        ),
      );
      const words = await Promise.all(hidden.map((what) => answersOf(what)));
      const both = [before, now];
      const [a, b] = both.map((what) => share(what, "it", "animal"));
      const [c, d] = both.map((what) => share(what, "it", "street"));
      const outcome = choiceOf(d > b, Math.abs(a - b) < 0.1);
      return {
        rows: [
          ["it.animal", written(a), written(b)],
          ["it.street", written(c), written(d)],
          ["all.animal", ...both.map((what) => written(everyone(what)))],
          ["answer", ...words.map(saidWords)],
        ],
        outcome,
        verdict: outcome === 1 && words[0][0]?.[0] === words[1][0]?.[0] ? 3 : outcome,
        values: {
          before: a.toFixed(2),
          after: b.toFixed(2),
          street: c.toFixed(2),
          road: d.toFixed(2),
          all: everyone(now).toFixed(2),
          layer,
          head,
          old: words[0][0]?.[0],
          new: words[1][0]?.[0],
        },
      };
    },
  },
  LAYER_SCENE,
  {
    id: "layers",
    set: () => ({
      section: "compare",
      text: banks[0],
      other: banks[1],
      same: banks[2],
      token: placeIn(banks[0], "bank"),
      depth: 0,
    }),
    act: () => ({ depth: sizes.layers }),
    done: () => state.depth > 0,
    figure: sensesFigure,
    measure: async () => {
      const texts = await threeTexts();
      if (!texts) {
        return null;
      }
      const own = state.token;
      const alike = (depth, other) => compareCosine(depth, own, twin(texts[other]), other);
      const apart = Array.from(
        { length: sizes.layers + 1 },
        (_, depth) => alike(depth, 2) - alike(depth, 1),
      );
      const most = Math.max(...apart);
      const from = apart.findIndex((value) => value >= most / 2);
      const pair = (f) => [f(0), f(state.depth)].map((value) => written(value));
      const outcome = choiceOf(from === 0, from <= sizes.layers / 2);
      return {
        rows: [
          ["other", ...pair((depth) => alike(depth, 1))],
          ["same", ...pair((depth) => alike(depth, 2))],
          ["difference", ...pair((depth) => apart[depth])],
        ],
        heads: ["h0", `h${state.depth}`],
        outcome,
        verdict: most < 0.01 ? 3 : outcome,
        values: { from, most: most.toFixed(2) },
      };
    },
  },
  {
    id: "guess",
    set: () => ({
      section: "predictions",
      text: "The doctor said that [MASK] was tired.",
      token: placeIn("The doctor said that [MASK] was tired.", "[MASK]"),
    }),
    act: () => ({ text: "The nurse said that [MASK] was tired." }),
    figure: professionsFigure,
    measure: async (before, now) => {
      const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
      const old = a[0][0];
      const best = b[0]?.[0];
      const outcome = choiceOf(best === "he", best === "she");
      const verdict = choiceOf(best === old, outcome < 2);
      return {
        rows: [["words", saidWords(a), saidWords(b)]],
        outcome,
        verdict,
        values: { old, new: best ?? "–" },
      };
    },
  },
  SIDES_SCENE,
  PAIR_SCENE,
  {
    id: "sentence",
    set: () => ({
      section: "compare",
      text: aging[0],
      other: aging[1],
      same: aging[2],
      unit: "sentences",
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
      const plain = await plainModel();
      const means = await Promise.all(
        wished().map(async (text) => meanOfStates(await plain.compute({ text }), plainLast())),
      );
      const plainAlike = (other) => cosine(means[0], means[other]);
      const row = (other) => [
        state[other === 1 ? "other" : "same"],
        written(alike(0, other)),
        written(alike(state.depth, other)),
        written(plainAlike(other)),
      ];
      const closer = (depth) => (alike(depth, 1) > alike(depth, 2) ? 0 : 1);
      const outcome = closer(state.depth);
      return {
        rows: [row(1), row(2)],
        heads: [`${page.name} h0`, `${page.name} h${state.depth}`, "plain"],
        outcome,
        verdict: outcome && closer(0) ? 2 : outcome,
        values: {
          depth: state.depth,
          name: page.name,
          words: alike(state.depth, 1).toFixed(2),
          meaning: alike(state.depth, 2).toFixed(2),
          plainWords: plainAlike(1).toFixed(2),
          plainMeaning: plainAlike(2).toFixed(2),
        },
      };
    },
    figure: paraphrasesFigure,
  },
  TASK_SCENE,
  {
    id: "training",
    set: () => ({ section: "training", snapshot: 0 }),
    act: () => ({ snapshot: 2 }),
    done: () => state.snapshot > 0,
    measure: async () => {
      pupils ?? (await (drawTraining.waking ??= wakePupils()));
      const answered = await Promise.all(
        [0, state.snapshot].map(async (i) =>
          (await questionPupil(i)).prompts.map(({ best }) => best?.[0]?.[0] ?? "–"),
        ),
      );
      const different = answered.map((words) => new Set(words).size);
      const common = answered[1].every((word) => COMMON.test(word));
      return {
        rows: [
          ...page.run.prompts.map((prompt, i) => [prompt, answered[0][i], answered[1][i]]),
          ["different", ...different],
          ["loss", lossAt(0), lossAt(state.snapshot)],
        ],
        heads: [0, state.snapshot].map(snapshotName),
        outcome: choiceOf(lossAt(state.snapshot) > 0.95 * lossAt(0), different[1] <= 2 || common),
        values: {
          step: snapshotName(state.snapshot),
          answers: t(`lesson.training.answers.${different[1] === 1 ? "one" : "some"}`, {
            different: different[1],
          }),
        },
      };
    },
  },
];

// The most frequent English words.
const COMMON = /^(the|a|to|of|and|is|in|i|you|it|he|was|that|\p{P})$/iu;

/** Replaces "it" by a noun phrase with [MASK], to see which noun the model predicts. */
const hideIt = (text) => text.replace(/\bit\b/i, "the [MASK]");
