// Where a difference crosses to [MASK].

import { example } from "../../contents.js";
import { patchFigure } from "../../patching.js";
import { namedHead, pairAnyway } from "../../rows.js";
import { brief, choiceOf, saidWords } from "../../wording.js";
import { patternRules, patternShare } from "../../../model/patterns.js";
import { average } from "../../../model/statistics.js";
import { answersOf, everyHead, placeIn, placeOf } from "../../../state/computed-text.js";
import { state } from "../../../state/store.js";

/** @type {Scene} */
export const scene = {
  id: "patch",
  concerns: ["layer", "head"],
  set: () => {
    const text = "낡은 배를 [MASK] 싶다.";
    return {
      section: "attention",
      text,
      token: placeIn(text, "[MASK]"),
      key: placeIn(text, "배를"),
      ...namedHead(example("patch")),
    };
  },
  act: () => ({ text: "달콤한 배를 [MASK] 싶다." }),
  figure: patchFigure,
  picture: "lines",
  measure: async (before, now) => {
    const { layer, head } = state;
    const both = [before, now];
    /**
     * @param {Computed} what
     * @param {any} [own]
     */
    const values = (what, own = layer) => what.steps.get(`layer.${own}.attention.probabilities`);
    /**
     * @param {Computed} what
     * @param {any} own
     * @param {number} at
     */
    const share = (what, own, at) =>
      values(what, own).at(at, placeOf(what, "[MASK]"), placeOf(what, "배를"));
    const [a, b] = both.map((what) => share(what, layer, head));
    const others = everyHead()
      .filter(([own, at]) => own !== layer || at !== head)
      .map(([own, at]) => Math.abs(share(now, own, at) - share(before, own, at)));
    const control = average(others);
    const { real, rules } = patternRules(now.tokens);
    const previous = patternShare(values(now), head, real, rules.previous) ?? 0;
    const best = await Promise.all(both.map((what) => answersOf(what)));
    const outcome = choiceOf(b < a - control, Math.abs(a - b) <= control);
    return {
      rows: [
        ["mask.noun", brief(a), brief(b)],
        ["others", "", brief(control)],
        ["previous", "", brief(previous)],
        ["answer", ...best.map(saidWords)],
      ],
      outcome,
      values: {
        before: brief(a),
        after: brief(b),
        control: brief(control),
        previous: brief(previous),
        old: best[0][0][0],
        new: best[1][0][0],
      },
    };
  },
  own: (before, now) => pairAnyway(scene, before, now),
};
