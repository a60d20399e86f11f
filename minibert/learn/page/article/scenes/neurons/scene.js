// The neurons of the feed-forward networks: what excites each of them most.
//
// scripts/figures/whys.py counted, for every neuron of the bundled models, how often one piece is
// behind its strongest texts, and did the same with random directions. The page looks at a few of
// them in sentences that had no part in choosing them.

import { studied } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { exampleOfWhys } from "../../rows.js";
import { MIDDLE } from "../layer/scene.js";
import { choiceOf, shareOf } from "../../wording.js";
import { current } from "../../../state/current.js";
import { page, sizes } from "../../../state/page.js";
import { goToPart } from "../../../views/strip/strip.js";

const FRESH_SENTENCES = 60; // the last ones of the article

/** The strongest activation of each example neuron in a sentence, with its piece. */
const excited = new Experiment(
  "excited",
  () => page.lesson.sentences.slice(-FRESH_SENTENCES),
  async (text) => {
    const { tokens: own, steps } = await current.live.compute({ text });
    const words = [...own.keys()].slice(1, -1); // without [CLS] and [SEP]
    return studied("neurons").examples.map((/** @type {any[]} */ [layer, neuron]) => {
      const values = steps.get(`layer.${layer}.intermediate`);
      const strongest = words.reduce((a, b) =>
        values.at(b, neuron) > values.at(a, neuron) ? b : a,
      );
      return { piece: own[strongest].piece, value: values.at(strongest, neuron) };
    });
  },
);

/**
 * Returns the pieces at which an example neuron is excited most, from the strongest down.
 * @param {number} which
 */
const strongestPieces = (which) =>
  excited.results
    .map((own) => own[which])
    .sort((a, b) => b.value - a.value)
    .map(({ piece: name }) => name);

/** @type {Scene} */
export const scene = {
  id: "neurons",
  studies: "neurons",
  set: () => ({ section: "head", layer: MIDDLE, ...exampleOfWhys() }),
  then: () => goToPart("ff", MIDDLE),
  act: () => ({}),
  experiments: () => [excited],
  amounts: () => ({ neurons: (sizes.layers * sizes.intermediate).toLocaleString("en") }),
  picture: "head-steps",
  measure: () => {
    const { neurons, random, examples } = studied("neurons");
    /**
     * @param {any[]} list
     * @param {string} name
     */
    const total = (list, name) => list.reduce((sum, own) => sum + own[name], 0);
    const all = total(neurons, "all");
    const passed = total(neurons, "passed");
    const passedAtRandom = total(random, "passed");
    const shown = examples.filter(
      (/** @type {any[]} */ [, , name], /** @type {number} */ i) =>
        strongestPieces(i)
          .slice(0, 3)
          .filter((own) => own === name).length > 1,
    );
    return {
      rows: [
        ...examples.map((/** @type {any[]} */ [layer, neuron, name], /** @type {number} */ i) => [
          `${layer}.${neuron}`,
          name,
          strongestPieces(i).slice(0, 5).join(" · "),
        ]),
        ["passed", "", shareOf(passed, all)],
        ["random", "", shareOf(passedAtRandom, all)],
        ["held", "", shareOf(total(neurons, "held"), passed)],
        ["held.random", "", shareOf(total(random, "held"), passedAtRandom)],
      ],
      heads: ["chosen", "fresh"],
      outcome: choiceOf(passed > 0.75 * all, passed > 0.25 * all),
      values: {
        passed: shareOf(passed, all),
        random: shareOf(passedAtRandom, all),
        held: shareOf(total(neurons, "held"), passed),
        random_held: shareOf(total(random, "held"), passedAtRandom),
        times: (passed / passedAtRandom).toFixed(1),
        shown: shown.length,
        examples: examples.length,
        sentences: FRESH_SENTENCES,
      },
    };
  },
};
