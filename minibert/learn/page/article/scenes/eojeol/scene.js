// A Korean word and its particle become pieces.

import { keep } from "../../contents.js";
import { SHIP } from "../../korean.js";
import { brief, choiceOf } from "../../wording.js";
import { cosine } from "../../../model/vectors.js";
import { placeIn, unknownIn } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";

/**
 * Returns the index and the pieces of the first word of a text that starts with some letters.
 * @param {Computed} what
 * @param {any} letters
 */
function wordFrom(what, letters) {
  const pieces = what.tokens.map((token) => token.piece);
  const from = pieces.findIndex((piece) => piece.startsWith(letters));
  let end = from + 1;
  while (from >= 0 && pieces[end]?.startsWith("##")) {
    end += 1;
  }
  return { place: from, pieces: pieces.slice(Math.max(from, 0), end) };
}

/**
 * @param {Computed} what
 * @param {number} place
 */
const wordVector = (what, place) => what.steps.get("embeddings.word").row(place);

/** @type {Scene} */
export const scene = {
  id: "eojeol",
  set: () => ({ section: "text", text: SHIP, token: placeIn(SHIP, "배를") }),
  act: () => ({ text: "어부들이 배도 타고 바다로 나갔다.", token: 4 }),
  measure: async (before, now) => {
    const [a, b] = [before, now].map((what) => wordFrom(what, "배"));
    const scale = await keep("scale", () => current.live.compute({ text: "배를 사람을" }));
    const alike = cosine(wordVector(before, a.place), wordVector(now, b.place));
    const far = cosine(wordVector(scale, 1), wordVector(scale, 2));
    return {
      rows: [
        ["pieces", a.pieces.join(" · "), b.pieces.join(" · ")],
        ["count", before.tokens.length, now.tokens.length],
        ["alike", brief(1), brief(alike)],
        ["far", "", brief(far)],
      ],
      outcome: choiceOf(b.pieces.length === 1, unknownIn(now.tokens) === 0),
      values: {
        pieces: b.pieces.join(" "),
        first: b.pieces[0],
        alike: brief(alike),
        far: brief(far),
      },
    };
  },
  own: (before, now) => [
    ["count", before.tokens.length, now.tokens.length],
    ["unknown", unknownIn(before.tokens), unknownIn(now.tokens)],
    ["word", ...[before, now].map((what) => wordFrom(what, "배").pieces.join(" · ") || "–")],
  ],
};
