// How text becomes pieces.

import { choiceOf } from "../../wording.js";
import { inner, unknownIn } from "../../../state/computed-text.js";

/** @type {Scene} */
export const scene = {
  id: "pieces",
  set: () => ({ section: "text", text: "The cat was sleeping on the mat.", token: 1 }),
  act: () => ({ text: "The cat was blorfing on the mat." }),
  measure: (before, now) => {
    /** @param {Computed} what */
    const unknown = (what) => inner(what).filter((piece) => piece === "[UNK]").length;
    /** @param {Computed} what */
    const parts = (what) => inner(what).filter((piece) => piece.startsWith("##")).length;
    return {
      rows: [
        ["count", before.tokens.length, now.tokens.length],
        ["pieces", inner(before).join(" · "), inner(now).join(" · ")],
        ["unknown", unknown(before), unknown(now)],
      ],
      outcome: choiceOf(unknown(now) > 0, parts(now) > 0),
    };
  },
  own: (before, now) => [
    ["count", before.tokens.length, now.tokens.length],
    ["unknown", unknownIn(before.tokens), unknownIn(now.tokens)],
  ],
};
