// Order is added to the vectors.

import { crowd } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { BITES } from "../../korean.js";
import { sameWordRows, vectorsOfPlace } from "../../rows.js";
import { brief, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { cosine } from "../../../model/vectors.js";
import { meanState, placeIn } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";

/** Cosines of the mean vectors of a sentence with both nouns swapped, and with its passive. */
export const roles = new Experiment(
  "roles",
  () => crowd("roles"),
  async ([agent, patient, past, participle]) => {
    const texts = [
      `The ${agent} ${past} the ${patient}.`,
      `The ${patient} ${past} the ${agent}.`,
      `The ${patient} was ${participle} by the ${agent}.`,
    ];
    const [own, ...others] = await Promise.all(
      texts.map(async (text) => meanState(await current.live.compute({ text }), sizes.layers)),
    );
    return others.map((other) => cosine(own, other));
  },
);

/** @type {Scene} */
export const english = {
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
        sentence: brief(swap),
        passive: brief(passive),
        closer: shareOf(closer, results.length),
      },
    };
  },
  own: (before, now) => sameWordRows(before, now, "dog"),
};

/** @type {Scene} */
export const korean = {
  id: "place",
  set: () => ({ section: "embeddings", text: BITES[0], token: placeIn(BITES[0], "사람을") }),
  act: () => ({ text: BITES[1], token: placeIn(BITES[1], "사람을") }),
  measure: (before, now) => vectorsOfPlace(before, now, "사람을"),
  own: (before, now) => sameWordRows(before, now, "사람을"),
};
