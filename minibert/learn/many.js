// Experiments over many sentences. One sentence suggests a result, and a scene then tests it on
// dozens.
//
// The results for the bundled models are shipped with the page: scripts/measure_scenes.py wrote
// them, and tests compare them with PyTorch. The page measures some of them again while the reader
// reads, and says how many came out the same. With another model it measures all of them itself. A
// scene concludes only when its experiments are complete.

const REPEATED = 20; // items of a shipped experiment that are measured again
const PATIENCE = 5000; // milliseconds that this may take

class Experiment {
  /**
   * @param name key of the shipped results.
   * @param items () => list of the items to measure.
   * @param measure (item, index) => promise of its result, ready for JSON.
   * @param alike (result, result) => whether two results of one item agree.
   */
  constructor(name, items, measure, alike = isAlike) {
    const again = { count: 0, alike: 0, tried: false };
    Object.assign(this, { name, items, measure, alike, again, running: false });
    Experiment.all.set(name, this);
  }

  get results() {
    this.found ??= page.lesson?.measured?.[this.name] ?? [];
    return this.found;
  }

  get complete() {
    return this.results.length >= this.items().length;
  }

  /** Returns whether the results came with the page. */
  get isShipped() {
    return Boolean(page.lesson?.measured?.[this.name]);
  }

  /** Measures the missing items while `wanted()`, or repeats some if none is missing. */
  async begin(wanted) {
    if (this.running || (this.complete && (this.again.tried || !this.isShipped))) {
      return;
    }
    this.running = true;
    try {
      await (this.complete ? this.repeat(wanted) : this.finish(wanted));
    } finally {
      this.running = false;
    }
    drawLesson();
  }

  async finish(wanted) {
    while (!this.complete && wanted()) {
      const index = this.results.length;
      this.results.push(await this.measure(this.items()[index], index));
      if (index % 10 === 0) {
        drawLesson();
      }
    }
  }

  /** Measures items that are spread over the list again, and compares them with the results. */
  async repeat(wanted) {
    const items = this.items();
    const many = Math.min(REPEATED, items.length);
    const end = performance.now() + PATIENCE;
    for (let i = this.again.count; i < many && wanted() && performance.now() < end; i++) {
      const index = Math.floor((i * items.length) / many);
      const result = await this.measure(items[index], index);
      this.again.count += 1;
      this.again.alike += Number(this.alike(result, this.results[index]));
    }
    this.again.tried = wanted();
  }
}
Experiment.all = new Map();

/** Returns whether two results agree: numbers within 0.01, everything else exactly. */
function isAlike(a, b) {
  if (typeof a === "number" && typeof b === "number") {
    return Math.abs(a - b) <= 0.01 * Math.max(1, Math.abs(b));
  }
  if (a && b && typeof a === "object" && typeof b === "object") {
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((key) => isAlike(a[key], b[key]));
  }
  return a === b;
}

/** Returns the progress of experiments, from 0 to 1. */
function progressOf(experiments) {
  const part = ({ results, items }) => Math.min(results.length / Math.max(items().length, 1), 1);
  return {
    running: experiments.some(({ running, complete }) => running && !complete),
    part: experiments.length ? average(experiments.map(part)) : 1,
  };
}

/** Returns how many results of experiments were measured again, in words. */
function saidAgain(experiments) {
  const shipped = experiments.filter(({ isShipped, again }) => isShipped && again.count > 0);
  const sum = (f) => shipped.reduce((total, own) => total + f(own), 0);
  return shipped.length
    ? t("lesson.again.said", {
        count: sum(({ again }) => again.count),
        alike: sum(({ again }) => again.alike),
        total: sum(({ results }) => results.length),
      })
    : "";
}

/**
 * Returns "14 of 20 (95%: 48 to 85%)", the share with the interval of Wilson (1927) that contains
 * the true share in 95 of 100 such samples.
 */
function shareOf(part, all) {
  const z = 1.96;
  const middle = (part + (z * z) / 2) / (all + z * z);
  const wide = (z / (all + z * z)) * Math.sqrt((part * (all - part)) / all + (z * z) / 4);
  const percent = (value) => Math.round(100 * clamp(value, 0, 1));
  return t("lesson.share", {
    part,
    all,
    low: percent(middle - wide),
    high: percent(middle + wide),
  });
}

/** Returns the half width of the 95% interval of a mean. */
const errorOf = (values) => (1.96 * spread(values)) / Math.sqrt(values.length);

/** Formats a number of a verdict: two digits, or three where two would all be 1.00. */
const brief = (value) => {
  const digits = Math.abs(value) > 0.975 && Math.abs(value) < 1 ? 3 : 2;
  return value.toFixed(digits).replace(/^-(0\.0+)$/, "$1");
};

const crowd = (name) => page.lesson.crowds[name];
const example = (name) => page.lesson.examples[name]; // what a shared scene takes from its article

const kept = new Map(); // computed values by name
function keep(name, compute) {
  if (!kept.has(name)) {
    kept.set(name, compute());
  }
  return kept.get(name);
}

const showsFigure = (figure) => SCENES[state.scene]?.figure === figure;

const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const spread = (values) => {
  const mean = average(values);
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return Math.sqrt(squares / Math.max(values.length - 1, 1));
};

// ---------------------------------------------------------------- sixty professions

const professions = new Experiment(
  "professions",
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
  ready: () => professions.complete,
  caption: () => t("lesson.guess.caption", { count: professions.results.length }),
  choices: () => [],
  said: () => {
    const { results } = professions;
    const logs = results.map(({ she, he }) => Math.log(he / she));
    return t("lesson.guess.said", {
      he: shareOf(results.filter(({ she, he }) => he > she).length, results.length),
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

const senses = new Experiment("senses", comparisons, async ({ word, text, same, other }) => {
  const [own, alike, unlike] = await Promise.all(
    [text, same, other].map((sentence) => statesOfWord(sentence, word)),
  );
  return own.map((state, depth) => cosine(state, alike[depth]) - cosine(state, unlike[depth]));
});

const sensesFigure = {
  ready: () => senses.complete,
  caption: () =>
    t("lesson.layers.caption", {
      count: senses.results.length,
      words: crowd("senses")
        .map(({ word }) => word)
        .join(", "),
    }),
  choices: () => [],
  said: () => {
    const { results } = senses;
    const means = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
      average(results.map((row) => row[depth])),
    );
    const most = Math.max(...means);
    const from = means.findIndex((mean) => mean >= most / 2);
    return t("lesson.layers.said", {
      from,
      mean: means[from].toFixed(3),
      spread: spread(results.map((row) => row[from])).toFixed(3),
      closer: shareOf(results.filter((row) => row[from] > 0).length, results.length),
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
  "paraphrases",
  () => crowd("paraphrases"),
  async (texts) => {
    const models = page.run ? [live, await plainModel()] : [live];
    const [own, others] = await Promise.all(
      models.map((model) => Promise.all(texts.map((text) => model.compute({ text })))),
    );
    const cosinesOf = (runs, name) => {
      const [first, ...rest] = runs.map((what) => meanOfStates(what, name));
      return rest.map((vector) => cosine(first, vector));
    };
    return {
      first: cosinesOf(own, stateName(0)),
      last: cosinesOf(own, stateName(sizes.layers)),
      ...(others ? { plain: cosinesOf(others, plainLast()) } : {}),
    };
  },
);

const paraphrasesFigure = {
  ready: () => paraphrases.complete,
  caption: () => t("lesson.sentence.caption", { count: paraphrases.results.length }),
  choices: () => [],
  said: () => t("lesson.sentence.said"),
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
          shareOf(pairs.filter(([words, meaning]) => meaning > words).length, pairs.length),
        ),
      );
    }
    box.replaceChildren(table);
  },
};

/** Whether the sentence of the same meaning is nearer than the same-meaning sentences of others. */
const nearest = new Experiment(
  "nearest",
  () => crowd("paraphrases"),
  async (texts, index) => {
    const all = crowd("paraphrases");
    const meanings = await Promise.all(all.map(([, , text]) => computeOnce(text)));
    const own = await computeOnce(texts[0]);
    const isNearest = (depth) => {
      const alike = meanings.map((what) => cosine(meanState(own, depth), meanState(what, depth)));
      return alike.indexOf(Math.max(...alike)) === index;
    };
    return { first: isNearest(0), last: isNearest(sizes.layers) };
  },
);

/** Returns the mean difference of the cosines with the same and the other sense, for each depth. */
const sensesApart = () =>
  Array.from({ length: sizes.layers + 1 }, (_, depth) =>
    average(senses.results.map((row) => row[depth])),
  );

// ---------------------------------------------------------------- who does what to whom

/** Cosines of the mean vectors of a sentence with both nouns swapped, and with its passive. */
const roles = new Experiment(
  "roles",
  () => crowd("roles"),
  async ([agent, patient, past, participle]) => {
    const texts = [
      `The ${agent} ${past} the ${patient}.`,
      `The ${patient} ${past} the ${agent}.`,
      `The ${patient} was ${participle} by the ${agent}.`,
    ];
    const [own, ...others] = await Promise.all(
      texts.map(async (text) => meanState(await live.compute({ text }), sizes.layers)),
    );
    return others.map((other) => cosine(own, other));
  },
);

// ---------------------------------------------------------------- what "it" stands for

/** Returns both sentences of a pair: "it" is the first noun in one, and the second in the other. */
const pronounTexts = ({ text, words: both }) => both.map((word) => text.replace("{}", word));

/** Returns for each head how much more "it" attends to a noun than the tokens do on average. */
function leads(what, noun) {
  const [query, key] = [placeOf(what, "it"), placeOf(what, noun)];
  return everyHead().map(([layer, head]) => {
    const values = what.steps.get(`layer.${layer}.attention.probabilities`);
    const everyone = average(what.tokens.map((_, from) => values.at(head, from, key)));
    return values.at(head, query, key) - everyone;
  });
}

/** For each head, how far the attention of "it" moves from the first noun to the second. */
const pronouns = new Experiment(
  "pronouns",
  () => crowd("pronouns"),
  async (pair) => {
    const runs = await Promise.all(pronounTexts(pair).map((text) => live.compute({ text })));
    const [first, second] = pair.nouns.map((noun) => runs.map((what) => leads(what, noun)));
    const ahead = (run, i) => first[run][i] - second[run][i];
    return { moved: everyHead().map((_, i) => ahead(0, i) - ahead(1, i)) };
  },
);

/** Returns log p(first noun) - log p(second noun) at the [MASK] in the place of "it". */
async function marginOf(text, nouns, off) {
  const what = await live.compute({ text: hideIt(text), off });
  const word = nouns.map((noun) => live.tokenizer.ids.get(noun));
  const [[a, b]] = await live.ask("shares", {
    word,
    states: oneRow(what, placeOf(what, "[MASK]")),
  });
  return Math.log(a) - Math.log(b);
}

/** How far the answer moves from the first noun to the second: untouched, and without each head. */
const silenced = new Experiment(
  "silenced",
  () => crowd("pronouns"),
  async (pair) => {
    const texts = pronounTexts(pair);
    const shift = async (off) => {
      const [a, b] = await Promise.all(texts.map((text) => marginOf(text, pair.nouns, off)));
      return a - b;
    };
    const without = [];
    for (const head of everyHead()) {
      without.push(await shift([head]));
    }
    return { whole: await shift([]), without };
  },
);

/** Returns for each head which part of the answer's shift remains without it, over all pairs. */
function remainingShift() {
  const whole = average(silenced.results.map((own) => own.whole));
  return everyHead().map((_, i) => average(silenced.results.map((own) => own.without[i])) / whole);
}

const nameOfHead = (i) => everyHead()[i].join(".");

// ---------------------------------------------------------------- a curve over the layers

const NAME_ASIDE = 8; // pixels from its curve that a name accepts to stand one place nearer the end

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
  });
  nameCurves(
    context,
    curves.map(({ name, means }) => ({ name, points: means.map((mean, i) => place(i, mean)) })),
    height - 34,
  );
}

/**
 * Writes the name of each curve where it covers no curve and no other name: near the curve, and
 * rather at its end.
 */
function nameCurves(context, curves, lowest) {
  const taken = [];
  context.textAlign = "right";
  curves.forEach(({ name, points }, which) => {
    if (!name) {
      return;
    }
    const width = context.measureText(name).width + 4;
    const isFree = ({ left, right, y, heights }) =>
      heights.every((height) => Math.abs(height - y) > 11) &&
      taken.every((one) => one.right < left || right < one.left || Math.abs(one.y - y) > 16);
    const places = points
      .filter(([right]) => right - width > points[0][0])
      .flatMap(([right, own], i, all) => {
        const left = right - width;
        const heights = curves.flatMap((one) => heightsOf(one.points, left, right));
        const aside = NAME_ASIDE * (all.length - 1 - i);
        return Array.from({ length: lowest - 8 }, (_, k) => k + 8).map((y) => {
          return { left, right, y, heights, cost: Math.abs(y - own) + aside };
        });
      })
      .sort((a, b) => a.cost - b.cost);
    const [right, end] = points.at(-1);
    const place = places.find(isFree) ?? { left: right - width, right, y: end - 12 };
    taken.push(place);
    context.fillStyle = color(which ? "soft" : "accent");
    context.fillText(name, place.right, place.y);
  });
}

/** Returns the heights of a curve at every third pixel between two places. */
function heightsOf(points, left, right) {
  return points.slice(1).flatMap(([x, y], i) => {
    const [fromX, fromY] = points[i];
    const steps = Array.from({ length: Math.ceil((x - fromX) / 3) + 1 }, (_, k) =>
      Math.min(fromX + 3 * k, x),
    );
    return steps
      .filter((at) => left <= at && at <= right)
      .map((at) => fromY + ((at - fromX) / (x - fromX)) * (y - fromY));
  });
}
