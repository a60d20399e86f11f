// The scene on a new task: a classifier, trained on the page, on the vectors of sentences whose labels the model never saw.

const STEPS_OF_TASK = 300; // of gradient descent
const RATE = 10;
const SHRINK = 0.001; // keeps the weights small
const AMOUNTS = [10, 20]; // labeled sentences to learn from, before all of them

/** Logistic regression: weights and bias that tell rows of label 1 from rows of label 0, by plain gradient descent. */
function fitClassifier(rows, labels) {
  const mean = centreOf(rows);
  const centred = rows.map((row) => row.map((value, c) => value - mean[c]));
  const weights = new Float64Array(mean.length);
  let bias = 0;
  for (let step = 0; step < STEPS_OF_TASK; step++) {
    const slopes = new Float64Array(mean.length);
    let slope = 0;
    centred.forEach((row, i) => {
      const logit = row.reduce((sum, value, c) => sum + value * weights[c], bias);
      const error = (1 / (1 + Math.exp(-logit)) - labels[i]) / rows.length;
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
  /** The probability of label 1. */
  return (row) => {
    const logit = row.reduce((sum, value, c) => sum + (value - mean[c]) * weights[c], bias);
    return 1 / (1 + Math.exp(-logit));
  };
}

/** The vector of a sentence at one depth: the mean over its tokens, made of length 1. */
function unitMean(what, depth) {
  const mean = meanState(what, depth);
  const length = lengthOf(mean) || 1;
  return mean.map((value) => value / length);
}

const taskwork = { read: 0, total: 1, running: false, learned: null };

/** Reads all labeled sentences once, then trains: {depth: {amount: classifier}}, and how many new sentences each gets right. */
async function learnTask() {
  if (taskwork.running || taskwork.learned) {
    return;
  }
  const { train, test } = page.lesson.labeled;
  taskwork.running = true;
  taskwork.total = train.length + test.length;
  const vectors = { 0: [], [sizes.layers]: [] };
  for (const [text] of [...train, ...test]) {
    const what = await live.compute({ text });
    for (const depth of Object.keys(vectors)) {
      vectors[depth].push(unitMean(what, Number(depth)));
    }
    taskwork.read += 1;
    if (taskwork.read % 10 === 0) {
      drawLesson();
    }
  }
  const labels = [...train, ...test].map(([, label]) => label);
  const trials = AMOUNTS.map((amount) => [amount, sizes.layers]);
  trials.push([train.length, sizes.layers], [train.length, 0]);
  taskwork.learned = trials.map(([amount, depth]) => {
    const rows = vectors[depth];
    const classify = fitClassifier(rows.slice(0, amount), labels.slice(0, amount));
    const right = rows
      .slice(train.length)
      .filter((row, i) => classify(row) > 0.5 === (labels[train.length + i] === 1)).length;
    return { amount, depth, classify, right };
  });
  taskwork.running = false;
  drawLesson();
}

const SOUP = "The waiter smiled, but my soup was cold.";

const TASK_SCENE = {
  id: "task",
  set: () => ({ section: "text", text: SOUP, token: placeIn(SOUP, "cold") }),
  amounts: () => ({
    train: page.lesson.labeled.train.length,
    test: page.lesson.labeled.test.length,
  }),
  act: async () => {
    await learnTask();
    return {};
  },
  done: () => taskwork.learned !== null,
  progress: () => ({ running: taskwork.running, part: taskwork.read / taskwork.total }),
  measure: (before, now) => {
    const { test, train } = page.lesson.labeled;
    const opinion = ({ classify, depth }) => {
      const good = classify(unitMean(now, depth));
      const name = t(good > 0.5 ? "lesson.task.good" : "lesson.task.bad");
      return `${name} ${Math.max(good, 1 - good).toFixed(2)}`;
    };
    const percents = taskwork.learned.map((own) => Math.round((100 * own.right) / test.length));
    const best = percents.at(-2);
    return {
      rows: taskwork.learned.map((own, i) => [
        t(own.depth ? "lesson.task.row.last" : "lesson.task.row.first", { amount: own.amount }),
        `${percents[i]}%`,
        opinion(own),
      ]),
      heads: ["right", "yours"],
      outcome: choiceOf(best < 65, best < 88),
      values: {
        count: train.length,
        test: test.length,
        best,
        first: percents.at(-1),
        parameters: sizes.parameters.toLocaleString("en"),
      },
    };
  },
};
