// The scenes of the English article: their initial state, their action, and the measurement of the
// verdict.
//
// A scene is an object with these properties:
// - set() and act() return changes of the state: where the scene begins, and what it asks about.
//   question.js compares the page with both.
// - needs: a parameter. A model without it has the article without the scene.
// - concerns: names of what matters beside the input of the model, such as the chosen head.
// - then(), work(): what is done after entering the scene, and while the act is shown.
// - experiments(): what has to be measured on many items before the scene concludes anything.
// - measure(before, now): the verdict on the question of the scene, {rows: [[label, before, after],
//   ...], heads?, outcome, verdict?, values?}. `outcome` is the index of the choice that turned out
//   right, and `verdict` the index of the text that explains it.
// - own(before, now): rows that can be measured on any two texts.
// - figure: what is drawn below the verdict, or at the opening of the scene below its first paragraph.

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
  part: -1,
  pinned: [],
  other: "",
  same: "",
  unit: "words",
  rule: "previous",
  special: true,
  threshold: 0,
  stage: "probabilities",
  view: "lines",
  tour: -1,
  depth: sizes.layers,
  layer: 0,
  head: 0,
  token: 0,
  key: 0,
  row: 0,
  step: 0,
  number: 0,
  snapshot: 0,
  turn: TURN,
  reach: 1,
});

const aging = ["How old are you?", "How tall are you?", "What is your age?"];
const banks = [
  "He walked along the bank of the river.",
  "She works at the bank in the city.",
  "She swam to the bank of the river.",
];

/** Returns the index of a piece in a text, or in a computed text, and -1 where it is missing. */
const placeOf = (what, piece) => what.tokens.findIndex((token) => token.piece === piece);
const placeIn = (text, piece) => placeOf({ tokens: live.tokens({ text }) }, piece);

/** Returns a head that an article names, or the last one of a smaller model. */
const namedHead = ({ layer, head }) => ({
  layer: Math.min(layer, sizes.layers - 1),
  head: Math.min(head, sizes.heads - 1),
});

/** Returns the index of the first condition that holds, or their number if none does. */
function choiceOf(...conditions) {
  const first = conditions.indexOf(true);
  return first < 0 ? conditions.length : first;
}

const inner = (what) =>
  what.tokens.map((token) => token.piece).filter((piece) => !/^\[(CLS|SEP)\]$/.test(piece));
const firstNumbers = (row) =>
  `${row
    .slice(0, 3)
    .map((value) => value.toFixed(2))
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
    .map(([word, share]) => `${word} ${brief(share)}`)
    .join(", ");

/** Returns the sentences of the comparison, once they are computed. */
async function comparedTexts() {
  await compareTexts();
  if (compared?.wish !== wished().join("\n")) {
    throw new Error($("compare-trouble").textContent);
  }
  return compared;
}

/** Returns the cosines of the first compared sentence with the others at two depths, as rows. */
async function comparedRows(alike) {
  const texts = await comparedTexts();
  return texts
    .slice(1)
    .map(({ request }, i) => [
      request.text,
      ...[0, state.depth].map((depth) => brief(alike(texts, depth, i + 1))),
    ]);
}

/**
 * Compares the chosen head's share for the chosen pattern in the scene's own sentence and over many
 * sentences.
 */
function measurePattern(before) {
  const { layer, head, rule } = state;
  const { real, rules } = patternRules(before.tokens);
  const values = before.steps.get(`layer.${layer}.attention.probabilities`);
  const share = patternShare(values, head, real, rules[rule]) ?? 0;
  const all = sharesOfHead(layer, head);
  const mean = average(all);
  const error = errorOf(all);
  const even = evenEvidence();
  const above = aboveChance(layer, head);
  const heads = sizes.layers * sizes.heads;
  return {
    rows: [
      ["chosen", brief(share), `${brief(mean)} ± ${error.toFixed(3)}`],
      ["even", brief(evenShare(before.tokens)[rule] ?? 0), brief(even)],
      ["above", "", `${headsAboveChance()} / ${heads}`],
    ],
    heads: ["one", "many"],
    outcome: choiceOf(
      share <= mean + 1.96 * spread(all), // no unusual sentence
      above.mean > above.error,
    ),
    values: {
      layer,
      head,
      rule: t(`pattern.${rule}`),
      count: all.length,
      here: brief(share),
      mean: brief(mean),
      error: error.toFixed(3),
      even: brief(even),
      times: (mean / even).toFixed(1),
      above: headsAboveChance(),
    },
  };
}

/** Rows on the chosen head and pattern, whatever they are. */
function ownPattern(before) {
  if (!evidence.complete) {
    return [];
  }
  const { rows, values } = measurePattern(before);
  return [
    ["pattern", "", `${values.rule} (${values.layer}.${values.head})`],
    ["many.mean", rows[0][1], rows[0][2]],
    rows[1],
  ];
}

/** Returns the score and the share between the chosen tokens of a text, with their names. */
function chosenPair(what) {
  const [query, key] = [state.token, state.key].map((at) => Math.min(at, what.tokens.length - 1));
  const of = (name) =>
    what.steps.get(`layer.${state.layer}.attention.${name}`).at(state.head, query, key);
  return {
    name: `${what.tokens[query].piece} → ${what.tokens[key].piece}`,
    score: of("scores"),
    share: of("probabilities"),
    sum: what.steps
      .get(`layer.${state.layer}.attention.probabilities`)
      .row(state.head, query)
      .reduce((a, b) => a + b, 0),
  };
}

/** Rows on a word in two texts: its places, and the cosines of its vectors if both have it. */
function sameWordRows(before, now, word) {
  const places = [before, now].map((what) => placeOf(what, word));
  const rows = [[`place of “${word}”`, ...places.map((at) => (at < 0 ? "–" : at))]];
  if (places.includes(-1)) {
    return rows;
  }
  const alike = (depth) =>
    cosine(...[before, now].map((what, i) => hiddenState(depth, what).row(places[i])));
  return [
    ...rows,
    ["alike.any", `h0: ${brief(alike(0))}`, `h${sizes.layers}: ${brief(alike(sizes.layers))}`],
  ];
}

/** Rows on the chosen token in the compared sentences, if all of them have it. */
async function ownComparison() {
  const texts = await comparedTexts();
  const piece = texts[0].tokens[clamp(state.token, 0, texts[0].tokens.length - 1)].piece;
  const places = texts.map((what) => placeOf(what, piece));
  if (places.includes(-1)) {
    return [["missing", piece, places.map((at) => (at < 0 ? "–" : at)).join(", ")]];
  }
  return texts
    .slice(1)
    .map(({ request }, i) => [
      `${piece}: ${request.text}`,
      ...[0, state.depth].map(
        (depth) => `h${depth}: ${brief(compareCosine(depth, places[0], places[i + 1], i + 1))}`,
      ),
    ]);
}

/** Returns what changes of the three vectors of a word if it stands in another place. */
function vectorsOfPlace(before, now, word) {
  const [i, j] = [before, now].map((what) => placeOf(what, word));
  const names = ["word", "token_type", "position"];
  const row = (what, name, at) => what.steps.get(`embeddings.${name}`).row(at);
  const alike = names.map((name) => cosine(row(before, name, i), row(now, name, j)));
  const places = inner(before).map((_, at) => at + 1);
  const angles = places.flatMap((at) =>
    places.map((to) => Math.abs(cosine(row(before, "word", at), row(before, "position", to)))),
  );
  const output = brief(cosine(row(before, "output", i), row(now, "output", j)));
  return {
    rows: [
      ...names.map((name, n) => [name, brief(1), brief(alike[n])]),
      ["output", brief(1), output],
    ],
    outcome: alike.indexOf(Math.min(...alike)),
    values: {
      alike: output,
      angle: average(angles).toFixed(2),
      random: Math.sqrt(2 / (Math.PI * sizes.hidden)).toFixed(2),
    },
  };
}

/**
 * Returns the scene on the score and the share of one head between two tokens, before and after the
 * text goes on behind them.
 */
const headScene = ({ text, longer, query, key }) => ({
  id: "head",
  concerns: ["layer", "head", "token", "key"],
  set: () => ({ section: "head", text, layer: 0, head: 0, token: query, key }),
  act: () => ({ text: longer }),
  measure: (before, now) => {
    const [a, b] = [before, now].map(chosenPair);
    const moved = (name) => Math.abs(a[name] - b[name]) > 0.0005; // as the page would show it
    return {
      rows: ["score", "share", "sum"].map((name) => [name, brief(a[name]), brief(b[name])]),
      outcome: choiceOf(moved("score"), moved("share")),
      values: { pair: a.name, before: brief(a.share), after: brief(b.share) },
    };
  },
  own: (before, now) => {
    const pairs = [before, now].map(chosenPair);
    return [
      ["pair", ...pairs.map(({ name }) => name)],
      ...["score", "share"].map((name) => [name, ...pairs.map((pair) => brief(pair[name]))]),
    ];
  },
});

const ENGLISH = [
  prologueScene(),
  {
    id: "pieces",
    set: () => ({ section: "text", text: "The cat was sleeping on the mat.", token: 1 }),
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
    own: (before, now) => [
      ["count", before.tokens.length, now.tokens.length],
      ["unknown", unknownIn(before.tokens), unknownIn(now.tokens)],
    ],
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
      const riverside = (depth) => cosine(first(depth), hiddenState(depth, scale).row(k));
      const last = sizes.layers;
      return {
        rows: [
          ["alike.other", brief(other(0)), brief(other(last))],
          ["alike.same", brief(riverside(0)), brief(riverside(last))],
        ],
        heads: ["h0", `h${last}`],
        outcome: choiceOf(other(0) > 0.9999, other(0) > 0.5),
        values: { last: brief(other(last)), scale: brief(riverside(last)) },
      };
    },
    own: (before, now) => sameWordRows(before, now, "bank"),
  },
  {
    id: "place",
    set: () => ({
      section: "embeddings",
      text: "The dog bit the man.",
      token: placeIn("The dog bit the man.", "dog"),
    }),
    act: () => ({ text: "The man bit the dog.", token: placeIn("The man bit the dog.", "dog") }),
    experiments: () => [roles],
    measure: (before, now) => {
      const place = vectorsOfPlace(before, now, "dog");
      const { results } = roles;
      const swap = average(results.map(([own]) => own));
      const passive = average(results.map(([, own]) => own));
      const closer = results.filter(([own, other]) => own > other).length;
      return {
        rows: [
          ...place.rows,
          ["sentence", "", brief(swap)],
          ["passive", "", brief(passive)],
          ["closer", "", shareOf(closer, results.length)],
        ],
        outcome: place.outcome,
        verdict: 2,
        values: {
          ...place.values,
          sentence: swap.toFixed(3),
          passive: passive.toFixed(3),
          closer: shareOf(closer, results.length),
        },
      };
    },
    own: (before, now) => sameWordRows(before, now, "dog"),
  },
  headScene({
    text: "The cat sat on the mat.",
    longer: "The cat sat on the mat because the sun was warm.",
    query: 2,
    key: 3,
  }),
  {
    id: "heads",
    concerns: ["layer", "head", "rule"],
    // This head has a clear pattern in this sentence, but not in others.
    set: () => ({
      section: "attention",
      text: "The old man sat on the bank of the river.",
      token: 6,
      key: 1,
      rule: "same",
      ...namedHead(example("heads")),
    }),
    act: () => ({}),
    experiments: () => [evidence],
    figure: evidenceFigure,
    measure: measurePattern,
    own: ownPattern,
  },
  {
    id: "it",
    concerns: ["layer", "head"],
    set: () => {
      const [text] = pronounTexts(crowd("pronouns")[0]);
      const [token, key] = ["it", "animal"].map((word) => placeIn(text, word));
      return { section: "attention", text, token, key, ...namedHead(example("it")) };
    },
    act: () => ({ text: pronounTexts(crowd("pronouns")[0])[1] }),
    experiments: () => [pronouns, silenced],
    figure: patchFigure,
    measure: async (before, now) => {
      const { layer, head } = state;
      const own = layer * sizes.heads + head;
      const lead = (what, noun) => leads(what, noun)[own];
      const both = [before, now];
      const [animal, street] = ["animal", "street"].map((noun) =>
        both.map((what) => lead(what, noun)),
      );
      const hidden = await Promise.all(both.map((what) => computeOnce(hideIt(what.request.text))));
      const words = await Promise.all(hidden.map((what) => answersOf(what)));
      const followed = pronouns.results.filter(({ moved }) => moved[own] > 0).length;
      const remaining = remainingShift();
      const others = remaining.filter((_, i) => i !== own);
      const least = remaining.indexOf(Math.min(...remaining));
      const percent = (value) => `${Math.round(100 * value)}%`;
      const movedBy = (which) => average(pronouns.results.map(({ moved }) => moved[which]));
      return {
        rows: [
          ["lead.animal", ...animal.map(brief)],
          ["lead.street", ...street.map(brief)],
          ["answer", ...words.map(saidWords)],
          ["followed", "", shareOf(followed, pronouns.results.length)],
          ["remains", "", percent(remaining[own])],
          ["remains.others", "", percent(average(others))],
          ["remains.least", "", `${percent(remaining[least])} (${nameOfHead(least)})`],
        ],
        outcome: choiceOf(street[1] > animal[1], animal[1] >= animal[0]),
        values: {
          layer,
          head,
          old: words[0][0][0],
          new: words[1][0][0],
          animal: brief(animal[0]),
          animal_now: brief(animal[1]),
          street: brief(street[0]),
          street_now: brief(street[1]),
          followed: shareOf(followed, pronouns.results.length),
          pairs: pronouns.results.length,
          moved: brief(movedBy(own)),
          remains: percent(remaining[own]),
          others: percent(average(others)),
          other: nameOfHead(least),
          least: percent(remaining[least]),
          other_moved: brief(movedBy(least)),
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
  LAYER_SCENE,
  {
    id: "layers",
    concerns: ["other", "same", "depth", "token"],
    set: () => ({
      section: "compare",
      text: banks[0],
      other: banks[1],
      same: banks[2],
      token: placeIn(banks[0], "bank"),
      depth: 0,
    }),
    act: () => ({ depth: sizes.layers }),
    experiments: () => [senses],
    figure: sensesFigure,
    measure: async () => {
      const texts = await comparedTexts();
      const alike = (depth, other) => compareCosine(depth, state.token, twin(texts[other]), other);
      const apart = sensesApart();
      const from = apart.findIndex((value) => value >= Math.max(...apart) / 2);
      const pair = (f) => [f(0), f(state.depth)].map(brief);
      const half = senses.results.filter((row) => row[from] > 0).length;
      return {
        rows: [
          ["other", ...pair((depth) => alike(depth, 1))],
          ["same", ...pair((depth) => alike(depth, 2))],
          ["many", ...pair((depth) => apart[depth])],
        ],
        heads: ["h0", `h${state.depth}`],
        outcome: choiceOf(from === 0, from <= sizes.layers / 2),
        values: {
          from,
          count: senses.results.length,
          closer: shareOf(half, senses.results.length),
          other: brief(alike(sizes.layers, 1)),
          same: brief(alike(sizes.layers, 2)),
        },
      };
    },
    own: () => ownComparison(),
  },
  {
    id: "guess",
    set: () => ({
      section: "predictions",
      text: "The doctor said that [MASK] was tired.",
      token: placeIn("The doctor said that [MASK] was tired.", "[MASK]"),
    }),
    act: () => ({ text: "The nurse said that [MASK] was tired." }),
    experiments: () => [professions],
    figure: professionsFigure,
    measure: async (before, now) => {
      const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
      const best = b[0][0];
      const { results } = professions;
      const she = results.filter((own) => own.she > own.he);
      return {
        rows: [
          ["words", saidWords(a), saidWords(b)],
          ["he", "", shareOf(results.length - she.length, results.length)],
        ],
        outcome: choiceOf(best === "he", best === "she"),
        values: {
          old: a[0][0],
          new: best,
          he: shareOf(results.length - she.length, results.length),
          she: she.map(({ word }) => word).join(", ") || "–",
        },
      };
    },
  },
  SIDES_SCENE,
  PAIR_SCENE,
  {
    id: "sentence",
    concerns: ["other", "same", "depth"],
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
    experiments: () => [paraphrases, nearest],
    measure: async () => {
      const { results } = paraphrases;
      const closer = (name) => results.filter((own) => own[name][1] > own[name][0]).length;
      const wins = closer("last");
      const among = (name) => nearest.results.filter((own) => own[name]).length;
      return {
        rows: [
          ...(await comparedRows(sentenceCosine)),
          ["closer", shareOf(closer("first"), results.length), shareOf(wins, results.length)],
          ["nearest", ...["first", "last"].map((name) => shareOf(among(name), results.length))],
        ],
        heads: ["h0", `h${state.depth}`],
        outcome: choiceOf(wins > 0.75 * results.length, wins > 0.25 * results.length),
        values: {
          name: page.name,
          first: shareOf(closer("first"), results.length),
          last: shareOf(wins, results.length),
          plain: shareOf(closer("plain"), results.length),
          nearest: shareOf(among("last"), results.length),
          nearest_first: shareOf(among("first"), results.length),
        },
      };
    },
    own: () => comparedRows(sentenceCosine),
    figure: paraphrasesFigure,
  },
  TASK_SCENE,
  ...tuningScenes(),
  TRAINING_SCENE,
  STEP_SCENE,
  SEVERAL_SCENE,
  TRANSFORM_SCENE,
  ...neuronScenes(),
];

/** Replaces "it" by a noun phrase with [MASK], to see which noun the model predicts. */
const hideIt = (text) => text.replace(/\bit\b/i, "the [MASK]");
