// Sentences of the same meaning and of the same words, which two scenes measure.

import { computeOnce, crowd } from "./contents.js";
import { Experiment } from "./experiment.js";
import { shareOf } from "./wording.js";
import { average } from "../model/statistics.js";
import { centerOf, cosine } from "../model/vectors.js";
import { element } from "../parts/elements.js";
import { meanState } from "../state/computed-text.js";
import { current, stateName } from "../state/current.js";
import { page, sizes } from "../state/page.js";
import { t } from "../state/words.js";
import { awakePupils } from "../views/training/snapshots.js";

/**
 * Returns the mean of all tokens after a layer of a model.
 * @param {Computed} what
 * @param {string} name
 */
function meanOfStates(what, name) {
  const states = what.steps.get(name);
  return centerOf(what.tokens.map((_, i) => states.row(i)));
}

/**
 * Returns the plain BERT of the scene on training: the last snapshot, trained on masked words only.
 */
async function plainModel() {
  return (await awakePupils()).at(-1);
}

const plainLast = () => `layer.${page.run.config.num_hidden_layers - 1}.output`;

/**
 * Returns the cosines of the first text with the others, by their means after a layer.
 * @param {any} model
 * @param {string[]} texts
 * @param {string[]} names
 */
async function cosinesOf(model, texts, names) {
  const runs = await Promise.all(texts.map((text) => model.compute({ text })));
  return names.map((name) => {
    const [first, ...rest] = runs.map((what) => meanOfStates(what, name));
    return rest.map((vector) => cosine(first, vector));
  });
}

/**
 * Cosines of each sentence with one of the same words and with one of the same meaning: in h0 and
 * in the last layer.
 */
export const paraphrases = new Experiment(
  "paraphrases",
  () => crowd("paraphrases"),
  async (texts) => {
    const names = [stateName(0), stateName(sizes.layers)];
    const [first, last] = await cosinesOf(current.live, texts, names);
    return { first, last };
  },
);

/** The same cosines in the last layer of the plain model. */
export const plainParaphrases = new Experiment(
  "plain",
  () => (page.run ? crowd("paraphrases") : []),
  async (texts) => (await cosinesOf(await plainModel(), texts, [plainLast()]))[0],
);

/** @type {Figure} */
export const paraphrasesFigure = {
  ready: () => paraphrases.complete && plainParaphrases.complete,
  caption: () => t("lesson.sentence.caption", { count: paraphrases.results.length }),
  choices: () => [],
  said: () => t("lesson.sentence.said"),
  draw: (box) => {
    /** @param {string} name */
    const pairsOf = (name) => paraphrases.results.map((result) => result[name]);
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
    for (const [label, pairs] of [
      [`${page.name}, h0`, pairsOf("first")],
      [`${page.name}, h${sizes.layers}`, pairsOf("last")],
      [t("lesson.sentence.plain"), plainParaphrases.results],
    ]) {
      const row = body.insertRow();
      row.append(
        element("th", label, { scope: "row" }),
        element("td", average(pairs.map((/** @type {any[]} */ [words]) => words)).toFixed(2)),
        element("td", average(pairs.map((/** @type {any[]} */ [, meaning]) => meaning)).toFixed(2)),
        element(
          "td",
          shareOf(
            pairs.filter((/** @type {any[]} */ [words, meaning]) => meaning > words).length,
            pairs.length,
          ),
        ),
      );
    }
    box.replaceChildren(table);
  },
};

/** Whether the sentence of the same meaning is nearer than the same-meaning sentences of others. */
export const nearest = new Experiment(
  "nearest",
  () => crowd("paraphrases"),
  async (texts, index) => {
    const all = crowd("paraphrases");
    const meanings = await Promise.all(
      all.map((/** @type {any[]} */ [, , text]) => computeOnce(text)),
    );
    const own = await computeOnce(texts[0]);
    /** @param {number} depth */
    const isNearest = (depth) => {
      const alike = meanings.map((what) => cosine(meanState(own, depth), meanState(what, depth)));
      return alike.indexOf(Math.max(...alike)) === index;
    };
    return { first: isNearest(0), last: isNearest(sizes.layers) };
  },
);
