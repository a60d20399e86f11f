// What a head does in one sentence, and in many.

import { evidence, evidenceFigure, measurePattern, ownPattern } from "../../attention-patterns.js";
import { example } from "../../contents.js";
import { namedHead } from "../../rows.js";

/** @type {Scene} */
export const english = {
  id: "heads",
  concerns: ["layer", "head", "rule"],
  // This head has a clear pattern in this sentence, but not in others.
  set: () => ({
    section: "attention",
    text: "The old man sat on the bank of the river.",
    token: 6,
    key: 1,
    rule: "same",
    ...namedHead(example("heads")),
  }),
  act: () => ({}),
  experiments: () => [evidence],
  figure: evidenceFigure,
  measure: measurePattern,
  own: (before, now) => ownPattern(english, before, now),
};

/** @type {Scene} */
export const korean = {
  id: "heads",
  concerns: ["layer", "head", "rule"],
  set: () => ({
    section: "attention",
    text: "오래전에 본 영화인데 지금 다시 봐도 정말 재미있다.",
    token: 3,
    key: 2,
    rule: "previous",
    ...namedHead(example("heads")),
  }),
  act: () => ({}),
  experiments: () => [evidence],
  figure: evidenceFigure,
  measure: measurePattern,
  own: (before, now) => ownPattern(korean, before, now),
};
