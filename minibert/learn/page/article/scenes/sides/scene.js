// The B in BERT: how many masked words the model finds with context from both sides, from one side,
// or with none.

import { example, keep } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { brief, choiceOf, shareOf } from "../../wording.js";
import { SIDES } from "../../../model/sides.js";
import { placeIn } from "../../../state/computed-text.js";
import { current, hiddenState } from "../../../state/current.js";
import { page, sizes } from "../../../state/page.js";

const HIDDEN = 300; // sentences of the article in which one piece is masked

/**
 * Returns the places that can be masked: whole words, or word endings that the article lists, such
 * as particles.
 * @param {any} own
 */
function placesToHide(own) {
  const { pieces } = example("sides");
  const fits = pieces
    ? (/** @type {any} */ piece) => pieces.includes(piece)
    : (/** @type {any} */ piece) => /^\p{L}{2,}$/u.test(piece);
  return [...own.keys()].filter((i) => fits(own[i].piece) && !own[i + 1]?.piece.startsWith("##"));
}

/**
 * Returns the place to mask, which varies from sentence to sentence.
 * @param {any} own
 * @param {number} number
 */
export function placeToHide(own, number) {
  const places = placesToHide(own);
  return places[(7 * number) % places.length];
}

/**
 * Returns the best word for one place of a text with each choice of sides: {both: [word,
 * probability], ...}.
 * @param {ModelRequest} request
 * @param {number} place
 */
async function answersBySides(request, place) {
  const names = Object.keys(SIDES);
  const states = new Float32Array(names.length * sizes.hidden);
  for (const [row, sides] of names.entries()) {
    const what = await current.live.compute({ ...request, sides });
    states.set(hiddenState(sizes.layers, what).row(place), row * sizes.hidden);
  }
  const best = await current.live.words({ shape: [names.length, sizes.hidden], data: states });
  return Object.fromEntries(names.map((sides, row) => [sides, best[row][0]]));
}

/** Returns the sentences with a place to mask. Each sentence is tokenized once. */
export function sentencesToHide() {
  return keep("hidden words", () =>
    page.lesson.sentences
      .filter((/** @type {any} */ text) => placesToHide(current.live.tokens({ text })).length > 0)
      .slice(0, HIDDEN),
  );
}

/** Masks one piece of each sentence, and keeps the sides from which the model finds it. */
const hiding = new Experiment("hiding", sentencesToHide, async (text, number) => {
  const own = current.live.tokens({ text });
  const place = placeToHide(own, number);
  const answers = await answersBySides({ text, masked: [place] }, place);
  const { piece: hidden } = own[place];
  return {
    piece: hidden,
    sides: Object.keys(SIDES).filter((sides) => answers[sides][0] === hidden),
  };
});

/**
 * Returns the piece that was masked most often, and how often. Always answering it is the baseline.
 */
function mostHidden() {
  const counts = new Map();
  for (const { piece: hidden } of hiding.results) {
    counts.set(hidden, (counts.get(hidden) ?? 0) + 1);
  }
  return [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
}

/** @type {Scene} */
export const scene = {
  id: "sides",
  set: () => {
    const { text, key } = example("sides");
    return { section: "attention", text, token: placeIn(text, "[MASK]"), key };
  },
  act: () => ({ sides: "left" }),
  experiments: () => [hiding],
  amounts: () => ({ hidden_words: sentencesToHide().length }),
  picture: "attention-map",
  measure: async (before) => {
    const place = before.tokens.findIndex((token) => token.piece === "[MASK]");
    const answers = await answersBySides({ text: before.request.text }, place);
    const { results } = hiding;
    const count = results.length;
    /** @param {...any} sides */
    const from = (...sides) =>
      results.filter((own) => sides.every((side) => own.sides.includes(side))).length;
    const shares = Object.fromEntries(
      Object.keys(SIDES).map((sides) => [sides, shareOf(from(sides), count)]),
    );
    const [often, times] = mostHidden();
    const still = from("both", "left");
    return {
      rows: [
        ...Object.keys(SIDES).map((sides) => [
          sides,
          `${answers[sides][0]} ${brief(answers[sides][1])}`,
          shares[sides],
        ]),
        ["always", often, shareOf(times, count)],
      ],
      heads: ["example", "found"],
      outcome: choiceOf(still > 0.75 * from("both"), still > 0.45 * from("both")),
      values: {
        count,
        ...shares,
        kept: shareOf(still, from("both")),
        piece: often,
        always: shareOf(times, count),
      },
    };
  },
};
