// The score and the share of one head.

import { SHIP } from "../../korean.js";
import { chosenPair, pairAnyway } from "../../rows.js";
import { brief, choiceOf } from "../../wording.js";

/**
 * Returns the scene on the score and the share of one head between two tokens, before and after the
 * text goes on behind them.
 * @param {{text: string, longer: string, query: number, key: number}} of
 */
const headScene = ({ text, longer, query, key }) => {
  /** @type {Scene} */
  const scene = {
    id: "head",
    concerns: ["layer", "head", "token", "key"],
    set: () => ({ section: "head", text, layer: 0, head: 0, token: query, key }),
    act: () => ({ text: longer }),
    /**
     * @param {Computed} before
     * @param {Computed} now
     */
    measure: (before, now) => {
      const [a, b] = [before, now].map(chosenPair);
      /** @param {string} name */
      const moved = (name) => Math.abs(a[name] - b[name]) > 0.0005; // as the page would show it
      return {
        rows: ["score", "share", "sum"].map((name) => [name, brief(a[name]), brief(b[name])]),
        outcome: choiceOf(moved("score"), moved("share")),
        values: { pair: a.name, before: brief(a.share), after: brief(b.share) },
      };
    },
    own: (before, now) => pairAnyway(scene, before, now),
  };
  return scene;
};

export const english = headScene({
  text: "The cat sat on the mat.",
  longer: "The cat sat on the mat because the sun was warm.",
  query: 2,
  key: 3,
});

export const korean = headScene({
  text: SHIP,
  longer: `${SHIP} 바람이 세게 불었다.`,
  query: 4,
  key: 5,
});
