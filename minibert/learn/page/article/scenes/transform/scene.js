// What the feed-forward network does.

import { prompts } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { exampleOfWhys, keptAnswers, layerNumbers, survivors } from "../../rows.js";
import { MIDDLE } from "../layer/scene.js";
import { choiceOf } from "../../wording.js";
import { average, errorOf } from "../../../model/statistics.js";
import { sizes } from "../../../state/page.js";
import { goToPart } from "../../../views/strip/strip.js";

/** Returns every layer alone, and then all of them. */
const removals = () => [...layerNumbers().map((layer) => [layer]), layerNumbers()];

/**
 * Returns all heads of some layers, as `off` names them.
 * @param {number[]} layers
 */
const headsOf = (layers) =>
  layers.flatMap((layer) => [...Array(sizes.heads).keys()].map((head) => [layer, head]));

// Two removals of one kind: what the part computes becomes 0 before its last matrix. The bias of
// that matrix and LayerNorm stay.

/** Whether an answer survives without the feed-forward network of one layer, and of all. */
const idling = new Experiment("idling", prompts, (text) =>
  keptAnswers(
    text,
    removals().map((idle) => ({ idle })),
  ),
);

/** Whether an answer survives without all heads of one layer, and of all. */
const unheard = new Experiment("unheard", prompts, (text) =>
  keptAnswers(
    text,
    removals().map((layers) => ({ off: headsOf(layers) })),
  ),
);

/** @type {Scene} */
export const scene = {
  id: "transform",
  set: () => ({ section: "head", layer: MIDDLE, ...exampleOfWhys() }),
  then: () => goToPart("ff", MIDDLE),
  act: () => ({}),
  experiments: () => [idling, unheard],
  picture: "head-steps",
  measure: () => {
    /** @param {{results: any[]}} of */
    const total = ({ results }) =>
      layerNumbers().map((layer) => results.filter((own) => own[layer]).length);
    const [idle, deaf] = [idling, unheard].map(total);
    const all = idling.results.length;
    /** @param {any[]} values */
    const each = (values) => values.map((value, own) => `${own}:\u00a0${value}`).join(", ");
    // how much oftener each answer survives without feed-forward than without heads
    /** @param {any} kept */
    const rate = (kept) => average(layerNumbers().map((layer) => Number(kept[layer])));
    const more = idling.results.map((own, i) => rate(own) - rate(unheard.results[i]));
    const middle = [idle, deaf].map((counts) => Math.round((100 * average(counts)) / all));
    return {
      rows: [
        ["idle", "", each(idle)],
        ["deaf", "", each(deaf)],
        ["idle.all", "", survivors(idling, sizes.layers)],
        ["deaf.all", "", survivors(unheard, sizes.layers)],
      ],
      outcome: choiceOf(average(more) > errorOf(more), average(more) >= -errorOf(more)),
      values: {
        count: all,
        idle: middle[0],
        deaf: middle[1],
        more: Math.round(100 * average(more)),
        error: Math.round(100 * errorOf(more)),
        none: survivors(idling, sizes.layers),
        unmixed: survivors(unheard, sizes.layers),
      },
    };
  },
};
