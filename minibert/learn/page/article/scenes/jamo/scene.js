// Decomposed Hangul.

import { choiceOf } from "../../wording.js";
import { WordPiece } from "../../../model/wordpiece.js";
import { inner, placeIn, unknownIn } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";

const HANGUL = "나는 한글을 읽는다.";

/** @type {Scene} */
export const scene = {
  id: "jamo",
  set: () => ({ section: "text", text: HANGUL, token: placeIn(HANGUL, "한글") }),
  act: () => ({ text: HANGUL.normalize("NFD") }),
  measure: (before, now) => {
    const { tokenizer } = current.live;
    const lower = new WordPiece({ ...tokenizer, do_lower_case: true, strip_accents: true });
    /** @param {Computed} what */
    const lowered = (what) => unknownIn(lower.encode(what.request.text, null, 0));
    const plain = [before, now].map(inner);
    const unknown = unknownIn(now.tokens);
    const equal = plain[0].join(" ") === plain[1].join(" ");
    return {
      rows: [
        ["characters", ...[before, now].map((what) => Array.from(what.request.text).length)],
        ["pieces", ...plain.map((pieces) => pieces.join(" · "))],
        ["unknown", unknownIn(before.tokens), unknown],
        ["lower", lowered(before), lowered(now)],
      ],
      outcome: choiceOf(equal, unknown === 0),
      values: { unknown, before: unknownIn(before.tokens), lower: lowered(before) },
    };
  },
  own: (before, now) => [
    ["characters", ...[before, now].map((what) => Array.from(what.request.text).length)],
    ["unknown", unknownIn(before.tokens), unknownIn(now.tokens)],
  ],
};
