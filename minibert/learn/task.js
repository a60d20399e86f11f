// The scene on a new task: trains a classifier in the page, on sentence vectors of a model that has
// never seen the labels.

const STEPS_OF_TASK = 300; // steps of gradient descent
const RATE = 10;
const SHRINK = 0.001; // weight decay
const SEEN_STEPS = [0, 1, 3, 10, 30, 100, 300]; // steps at which the loss is recorded

const logistic = (logit) => 1 / (1 + Math.exp(-logit));

/**
 * Trains logistic regression on rows with label 0 or 1, by plain gradient descent.
 * @param watch (step, classify) => called with the current classifier before each step and at the
 *   end.
 * @returns (row) => probability of label 1.
 */
function fitClassifier(rows, labels, watch = () => {}) {
  const mean = centerOf(rows);
  const centered = rows.map((row) => row.map((value, c) => value - mean[c]));
  const weights = new Float64Array(mean.length);
  let bias = 0;
  const classify = (row) =>
    logistic(row.reduce((sum, value, c) => sum + (value - mean[c]) * weights[c], bias));
  for (let step = 0; step < STEPS_OF_TASK; step++) {
    watch(step, classify);
    const slopes = new Float64Array(mean.length);
    let slope = 0;
    centered.forEach((row, i) => {
      const logit = row.reduce((sum, value, c) => sum + value * weights[c], bias);
      const error = (logistic(logit) - labels[i]) / rows.length;
      row.forEach((value, c) => {
        slopes[c] += error * value;
      });
      slope += error;
    });
    for (let c = 0; c < weights.length; c++) {
      weights[c] -= RATE * (slopes[c] + SHRINK * weights[c]);
    }
    bias -= RATE * slope;
  }
  watch(STEPS_OF_TASK, classify);
  return classify;
}

/** Returns the L2-normalized mean of a sentence's tokens at one depth. */
function unitMean(what, depth) {
  const mean = meanState(what, depth);
  const length = lengthOf(mean) || 1;
  return mean.map((value) => value / length);
}

const taskwork = { done: 0, total: 1, running: false, learned: null };

/**
 * Returns the classifiers to train: the number of labeled sentences and the depth of their vectors.
 */
function trialsOfTask() {
  const { last, h0 } = example("task").amounts;
  const most = page.lesson.labeled.train.length;
  return [
    ...last.map((amount) => ({ amount: Math.min(amount, most), depth: sizes.layers })),
    ...h0.map((amount) => ({ amount: Math.min(amount, most), depth: 0 })),
  ];
}

/** Draws the progress and lets the browser update the screen. */
const drawTaskwork = () => {
  drawLesson();
  return new Promise((resolve) => setTimeout(resolve));
};

/** Returns the vectors of all labeled sentences: {depth: [vector, ...]}. */
async function readLabeled(texts) {
  const vectors = { 0: [], [sizes.layers]: [] };
  for (const [text] of texts) {
    const what = await live.compute({ text });
    for (const depth of Object.keys(vectors)) {
      vectors[depth].push(unitMean(what, Number(depth)));
    }
    taskwork.done += 1;
    if (taskwork.done % 10 === 0) {
      await drawTaskwork();
    }
  }
  return vectors;
}

/**
 * Returns the order of the sentences in one of several splits. Praise and complaint about the same
 * thing form a pair, which stays together. Each split starts at another pair and wraps around.
 */
function orderOfSplit(split, splits, count) {
  const pairs = count / 2;
  const start = Math.floor((split * pairs) / splits);
  return Array.from({ length: count }, (_, i) => (i + 2 * start) % count);
}

/** Returns the mean logistic loss of a classifier over rows. */
const lossOver = (classify, rows, labels) =>
  average(rows.map((row, i) => -Math.log(labels[i] ? classify(row) : 1 - classify(row))));

/** Trains one classifier on one split, and keeps its accuracy on new sentences and its losses. */
function learnSplit(trial, vectors, labels, order, seen) {
  const rows = order.map((i) => vectors[trial.depth][i]);
  const own = order.map((i) => labels[i]);
  const parts = [
    [rows.slice(0, trial.amount), own.slice(0, trial.amount)],
    [rows.slice(seen), own.slice(seen)],
  ];
  const losses = [];
  const classify = fitClassifier(...parts[0], (step, present) => {
    if (SEEN_STEPS.includes(step)) {
      losses.push(parts.map(([some, theirs]) => lossOver(present, some, theirs)));
    }
  });
  const [test, answers] = parts[1];
  const right = test.filter((row, i) => classify(row) > 0.5 === (answers[i] === 1)).length;
  trial.classify ??= classify; // the first split has the order of the file
  trial.rights.push(right / test.length);
  trial.losses.push(losses);
}

/**
 * Computes the vectors of all labeled sentences once, then trains every classifier on every split.
 */
async function learnTask() {
  if (taskwork.running || taskwork.learned) {
    return;
  }
  const { train, test } = page.lesson.labeled;
  const { splits } = example("task");
  const texts = [...train, ...test];
  taskwork.running = true;
  taskwork.total = texts.length + splits;
  const vectors = await readLabeled(texts);
  const labels = texts.map(([, label]) => label);
  const trials = trialsOfTask().map((trial) => ({ ...trial, rights: [], losses: [] }));
  for (let split = 0; split < splits; split++) {
    const order = orderOfSplit(split, splits, texts.length);
    trials.forEach((trial) => learnSplit(trial, vectors, labels, order, train.length));
    taskwork.done += 1;
    await drawTaskwork();
  }
  taskwork.learned = trials;
  taskwork.running = false;
  drawLesson();
}

/** Returns the classifier trained on the most sentences, with the vectors of one depth. */
const mostTaught = (depth) => taskwork.learned.findLast((own) => own.depth === depth);

/**
 * Returns the mean losses over the splits, on training and on new sentences, at each recorded step.
 */
function lossesOfTask() {
  const { losses } = mostTaught(sizes.layers);
  return [0, 1].map((part) =>
    SEEN_STEPS.map((_, step) => average(losses.map((own) => own[step][part]))),
  );
}

const taskFigure = {
  ready: () => taskwork.learned !== null,
  caption: () =>
    t("lesson.task.caption", {
      amount: mostTaught(sizes.layers).amount,
      splits: example("task").splits,
    }),
  choices: () => [],
  said: () => {
    const [own, fresh] = lossesOfTask();
    const best = fresh.indexOf(Math.min(...fresh));
    const written = (value) => value.toFixed(2);
    return t("lesson.task.said", {
      begin: written(fresh[0]),
      own: written(own.at(-1)),
      fresh: written(fresh.at(-1)),
      least: written(fresh[best]),
      step: SEEN_STEPS[best],
      steps: STEPS_OF_TASK,
    });
  },
  draw: (box) => {
    const [own, fresh] = lossesOfTask();
    drawCurves(box, {
      labels: SEEN_STEPS.map(String),
      curves: [
        { name: t("lesson.task.fresh"), means: fresh },
        { name: t("lesson.task.own"), means: own },
      ],
      label: taskFigure.said(),
    });
  },
};

const TASK_SCENE = {
  id: "task",
  set: () => {
    const { text, word } = example("task");
    return { section: "text", text, token: placeIn(text, word) };
  },
  amounts: () => ({
    train: page.lesson.labeled.train.length,
    test: page.lesson.labeled.test.length,
    asked: example("task").asked,
    splits: example("task").splits,
  }),
  act: async () => {
    await learnTask();
    return {};
  },
  done: () => taskwork.learned !== null,
  progress: () => ({ running: taskwork.running, part: taskwork.done / taskwork.total }),
  figure: taskFigure,
  measure: (before, now) => {
    const { test, train } = page.lesson.labeled;
    const { asked, bounds } = example("task");
    const opinion = ({ classify, depth }) => {
      const good = classify(unitMean(now, depth));
      const name = t(good > 0.5 ? "lesson.task.good" : "lesson.task.bad");
      return `${name} ${Math.max(good, 1 - good).toFixed(2)}`;
    };
    const { learned } = taskwork;
    const percentOf = ({ rights }) => Math.round(100 * average(rights));
    const ofAsked = (depth) => learned.find((own) => own.depth === depth && own.amount === asked);
    const [few, fewFirst] = [sizes.layers, 0].map((depth) => ofAsked(depth) ?? mostTaught(depth));
    const share = percentOf(few);
    const better = few.rights.filter((right, i) => right > fewFirst.rights[i]).length;
    return {
      rows: learned.map((own) => [
        t(own.depth ? "lesson.task.row.last" : "lesson.task.row.first", { amount: own.amount }),
        `${percentOf(own)}%`,
        opinion(own),
      ]),
      heads: ["right", "yours"],
      outcome: choiceOf(share < bounds[0], share < bounds[1]),
      values: {
        count: train.length,
        test: test.length,
        best: percentOf(mostTaught(sizes.layers)),
        first: percentOf(mostTaught(0)),
        few: share,
        few_first: percentOf(fewFirst),
        better,
        parameters: sizes.parameters.toLocaleString("en"),
      },
    };
  },
};
