// Experiments over many sentences. One sentence suggests a result, and a scene then tests it on
// dozens and shows mean and spread.
//
// An experiment computes one item at a time while its scene is open. It keeps its results and
// resumes when the reader comes back. Its figure shows the results so far and says that they are
// incomplete.

class Experiment {
  /**
   * @param items () => list of the items to measure.
   * @param measure (item) => promise of its result.
   */
  constructor(items, measure) {
    Object.assign(this, { items, measure, results: [], running: false });
  }

  get complete() {
    return this.results.length === this.items().length;
  }

  /** Measures the remaining items while `wanted()`, and draws the results after every batch. */
  async run(wanted, batch) {
    if (this.running || this.complete) {
      return;
    }
    this.running = true;
    try {
      while (!this.complete && wanted()) {
        this.results.push(await this.measure(this.items()[this.results.length]));
        if (this.results.length % batch === 0 || this.complete) {
          drawLesson();
        }
      }
    } finally {
      this.running = false;
    }
  }
}

/** Returns the progress of an experiment for its scene. */
const progressOf = ({ running, results, items }) => ({
  running,
  part: results.length / Math.max(items().length, 1),
});

/** Returns whether an experiment has no result yet. */
const isAwaited = ({ results, items }) => items().length > 0 && results.length === 0;

const crowd = (name) => page.lesson.crowds[name];
const example = (name) => page.lesson.examples[name]; // what a shared scene takes from its article

const counts = new Map(); // results over many sentences by name
function counted(name, count) {
  if (!counts.has(name)) {
    counts.set(name, count());
  }
  return counts.get(name);
}

const showsFigure = (figure) => SCENES[state.scene]?.figure === figure;

/** Returns "500 sentences", or "so far 20 of 500 sentences" while they are being processed. */
function soFar(count, total, unit = "sentences") {
  return t(count < total ? `lesson.${unit}.some` : `lesson.${unit}.all`, { count, total });
}

/** Returns the conclusion from an experiment, marked as provisional until it is complete. */
function saidSoFar(experiment, key, values = {}) {
  const said = t(key, values);
  return experiment.complete ? said : `${t("lesson.open")} ${said}`;
}

const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const spread = (values) => {
  const mean = average(values);
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return Math.sqrt(squares / Math.max(values.length - 1, 1));
};

// ---------------------------------------------------------------- sixty professions

const professions = new Experiment(
  () => crowd("professions").words,
  async (word) => {
    const { text, answers: words } = crowd("professions");
    const what = await live.compute({ text: text.replace("{word}", word) });
    const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
    const ids = words.map((answer) => live.tokenizer.ids.get(answer));
    const [[she, he]] = await live.ask("shares", { word: ids, states: oneRow(what, place) });
    return { word, she, he };
  },
);

/** Returns the ratio of both probabilities with the likelier word, such as "he ×2.7". */
function times({ she, he }) {
  const names = crowd("professions").answers;
  return `${she > he ? names[0] : names[1]} ×${(Math.max(she, he) / Math.min(she, he)).toFixed(1)}`;
}

const professionsFigure = {
  begin: () => {
    professions.run(() => showsFigure(professionsFigure), 10);
  },
  ready: () => professions.results.length > 0,
  caption: () => {
    const count = professions.results.length;
    return t("lesson.guess.caption", {
      count: soFar(count, crowd("professions").words.length, "professions"),
    });
  },
  choices: () => [],
  said: () => {
    const { results } = professions;
    const logs = results.map(({ she, he }) => Math.log(he / she));
    return saidSoFar(professions, "lesson.guess.said", {
      he: results.filter(({ she, he }) => he > she).length,
      she: results.filter(({ she, he }) => she > he).length,
      mean: Math.exp(average(logs)).toFixed(1),
    });
  },
  /**
   * Draws a bar for each profession, to the left for "he" and to the right for "she", sorted by
   * ratio.
   */
  draw: (box) => {
    const sorted = [...professions.results].sort((a, b) => a.she / a.he - b.she / b.he);
    const most = Math.max(...sorted.map(({ she, he }) => Math.abs(Math.log(she / he))));
    const list = element("ol", "", { className: "ranking" });
    for (const result of sorted) {
      const ratio = Math.log(result.she / result.he) / most;
      const item = element("li");
      const scale = element("i");
      scale.setAttribute("aria-hidden", "true");
      scale.style.setProperty("--from", `${Math.min(50, 50 + 50 * ratio)}%`);
      scale.style.setProperty("--wide", `${Math.abs(50 * ratio)}%`);
      item.append(element("span", result.word), scale, element("small", times(result)));
      list.append(item);
    }
    box.replaceChildren(list);
  },
};

// ---------------------------------------------------------------- forty comparisons of two senses

/**
 * Returns all comparisons: a sentence, the next one with the same sense of the word, and one with
 * the other sense.
 */
function comparisons() {
  return crowd("senses").flatMap(({ word, texts }) =>
    texts.flatMap((own, sense) =>
      own.map((text, i) => ({
        word,
        text,
        same: own[(i + 1) % own.length],
        other: texts[1 - sense][i],
      })),
    ),
  );
}

const computed = new Map(); // sentences by text, each computed once
function computeOnce(text) {
  if (!computed.has(text)) {
    computed.set(text, live.compute({ text }));
  }
  return computed.get(text);
}

// States of a word by sentence. A sentence is part of three comparisons, and only these states are
// kept.
const statesKept = new Map();
function statesOfWord(text, word) {
  if (!statesKept.has(text)) {
    const states = live.compute({ text }).then((what) => {
      const place = what.tokens.findIndex((token) => token.piece === word);
      return Array.from({ length: sizes.layers + 1 }, (_, depth) =>
        hiddenState(depth, what).row(place),
      );
    });
    statesKept.set(text, states);
  }
  return statesKept.get(text);
}

const senses = new Experiment(comparisons, async ({ word, text, same, other }) => {
  const [own, alike, unlike] = await Promise.all(
    [text, same, other].map((sentence) => statesOfWord(sentence, word)),
  );
  return own.map((state, depth) => cosine(state, alike[depth]) - cosine(state, unlike[depth]));
});

const sensesFigure = {
  begin: () => {
    senses.run(() => showsFigure(sensesFigure), 5);
  },
  ready: () => senses.results.length > 1,
  caption: () => {
    const count = senses.results.length;
    return t("lesson.layers.caption", {
      count: soFar(count, comparisons().length, "comparisons"),
      words: crowd("senses")
        .map(({ word }) => word)
        .join(", "),
    });
  },
  choices: () => [],
  said: () => {
    const { results } = senses;
    const means = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
      average(results.map((row) => row[depth])),
    );
    const most = Math.max(...means);
    const from = means.findIndex((mean) => mean >= most / 2);
    return saidSoFar(senses, "lesson.layers.said", {
      from,
      mean: means[from].toFixed(3),
      spread: spread(results.map((row) => row[from])).toFixed(3),
      closer: results.filter((row) => row[from] > 0).length,
      count: results.length,
      last: sizes.layers,
      most: means.at(-1).toFixed(3),
    });
  },
  draw: (box) => {
    const { results } = senses;
    const depths = Array.from({ length: sizes.layers + 1 }, (_, depth) => depth);
    const columns = depths.map((depth) => results.map((row) => row[depth]));
    drawCurves(box, {
      labels: depths.map((depth) => `h${depth}`),
      curves: [{ name: "", means: columns.map(average), spreads: columns.map(spread) }],
      label: sensesFigure.said(),
    });
  },
};

// ---------------------------------------------------------------- paraphrases, on two models

/** Returns the mean of all tokens after a layer of a model. */
function meanOfStates(what, name) {
  const states = what.steps.get(name);
  return centerOf(what.tokens.map((_, i) => states.row(i)));
}

/**
 * Returns the plain BERT of the scene on training: the last snapshot, trained on masked words only.
 */
async function plainModel() {
  pupils ?? (await (drawTraining.waking ??= wakePupils()));
  return pupils.at(-1);
}
const plainLast = () => `layer.${page.run.config.num_hidden_layers - 1}.output`;

/**
 * Cosines of each sentence with one of the same words and with one of the same meaning: in h0, in
 * the last layer, and in the plain model.
 */
const paraphrases = new Experiment(
  () => crowd("paraphrases"),
  async (texts) => {
    const plain = await plainModel();
    const [own, others] = await Promise.all(
      [live, plain].map((model) => Promise.all(texts.map((text) => model.compute({ text })))),
    );
    const cosinesOf = (runs, name) => {
      const [first, ...rest] = runs.map((what) => meanOfStates(what, name));
      return rest.map((vector) => cosine(first, vector));
    };
    return {
      first: cosinesOf(own, stateName(0)),
      last: cosinesOf(own, stateName(sizes.layers)),
      plain: cosinesOf(others, plainLast()),
    };
  },
);

const paraphrasesFigure = {
  begin: () => {
    paraphrases.run(() => showsFigure(paraphrasesFigure), 4);
  },
  ready: () => paraphrases.results.length > 0,
  caption: () => {
    const count = paraphrases.results.length;
    return t("lesson.sentence.caption", {
      count: soFar(count, crowd("paraphrases").length, "triples"),
    });
  },
  choices: () => [],
  said: () => saidSoFar(paraphrases, "lesson.sentence.said"),
  draw: (box) => {
    const { results } = paraphrases;
    const table = element("table");
    const head = element("tr");
    head.append(
      element("td"),
      ...["words", "meaning", "closer"].map((name) =>
        element("th", t(`lesson.sentence.${name}`), { scope: "col" }),
      ),
    );
    table.createTHead().append(head);
    const body = table.createTBody();
    for (const [name, label] of [
      ["first", `${page.name}, h0`],
      ["last", `${page.name}, h${sizes.layers}`],
      ["plain", t("lesson.sentence.plain")],
    ]) {
      const pairs = results.map((result) => result[name]);
      const row = body.insertRow();
      row.append(
        element("th", label, { scope: "row" }),
        element("td", average(pairs.map(([words]) => words)).toFixed(2)),
        element("td", average(pairs.map(([, meaning]) => meaning)).toFixed(2)),
        element(
          "td",
          `${pairs.filter(([words, meaning]) => meaning > words).length} / ${pairs.length}`,
        ),
      );
    }
    box.replaceChildren(table);
  },
};

// ---------------------------------------------------------------- a curve over the layers

/**
 * Draws curves over the layers, with a band of one standard deviation if `spreads` is given.
 * @param box the element that holds the canvas.
 * @param plot {labels, curves: [{name, means, spreads?}, ...], at?, label}. `at` is the current
 *   layer, and `label` describes the plot in words.
 */
function drawCurves(box, { labels, curves, at = -1, label }) {
  let canvas = box.querySelector("canvas");
  if (!canvas) {
    canvas = element("canvas");
    canvas.setAttribute("role", "img");
    box.replaceChildren(canvas);
  }
  canvas.setAttribute("aria-label", label);
  const width = Math.max(box.clientWidth, 240);
  const height = 190;
  const context = prepare(canvas, width, height);
  const ends = curves.flatMap(({ means, spreads }) =>
    means.flatMap((mean, i) => [mean - (spreads?.[i] ?? 0), mean + (spreads?.[i] ?? 0)]),
  );
  const high = Math.max(...ends);
  // Differences are drawn from 0. Cosines, which are all large, are drawn from the smallest one.
  const low = Math.min(...ends) > 0.3 ? Math.min(...ends) - 0.05 : Math.min(0, ...ends);
  const place = (i, value) => [
    54 + (i / (labels.length - 1)) * (width - 76),
    12 + ((high - value) / (high - low || 1)) * (height - 44),
  ];
  const trace = (points) => {
    context.beginPath();
    points.forEach((point) => context.lineTo(...point));
  };
  for (const value of low < 0 ? [low, 0, high] : [low, (low + high) / 2, high]) {
    const [, y] = place(0, value);
    context.fillStyle = color("soft");
    context.textAlign = "right";
    context.fillText(value.toFixed(2), 46, y);
    context.strokeStyle = color("line");
    trace([place(0, value), place(labels.length - 1, value)]);
    context.stroke();
  }
  if (at >= 0) {
    context.strokeStyle = color("cursor");
    trace([place(at, low), place(at, high)]);
    context.stroke();
  }
  context.fillStyle = color("soft");
  context.textAlign = "center";
  labels.forEach((name, i) => context.fillText(name, place(i, low)[0], height - 10));
  curves.forEach(({ name, means, spreads }, which) => {
    const stroke = color(which ? "soft" : "accent");
    if (spreads) {
      context.globalAlpha = 0.16;
      context.fillStyle = stroke;
      const above = means.map((mean, i) => place(i, mean + spreads[i]));
      const below = means.map((mean, i) => place(i, mean - spreads[i]));
      trace([...above, ...below.reverse()]);
      context.fill();
      context.globalAlpha = 1;
    }
    context.strokeStyle = stroke;
    context.lineWidth = 2;
    context.setLineDash(which ? [5, 4] : []);
    trace(means.map((mean, i) => place(i, mean)));
    context.stroke();
    context.setLineDash([]);
    if (name) {
      const [x, y] = place(means.length - 1, means.at(-1));
      context.textAlign = "right";
      context.fillStyle = stroke;
      context.fillText(name, x, y > height / 2 ? y - 12 : y + 14);
    }
  });
}
