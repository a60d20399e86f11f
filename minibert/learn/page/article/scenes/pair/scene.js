// Two sentences: segments, [CLS] and its pooler, the next sentence, and padding.

import { example } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { brief, choiceOf, shareOf } from "../../wording.js";
import { Numbers } from "../../../model/numbers.js";
import { cosine, lengthOf } from "../../../model/vectors.js";
import { current, hiddenState, stateName } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";

const PADS = 8; // number of padding tokens that the scene adds

// Offsets in the list of pairs. First sentences are combined with the second sentences at these
// offsets.
const SHIFTS = [3, 7, 11, 17];

/**
 * Returns the probability that the second text follows the first, from the next-sentence head.
 * @param {Computed} what
 */
function followsOf(what) {
  const logits = what.steps.get("nsp.logits");
  return logits ? 1 / (1 + Math.exp(logits.at(1) - logits.at(0))) : null;
}

/**
 * Returns the last states of a text with every token in the first segment.
 * @param {Computed} what
 */
async function withoutSegments(what) {
  /** @param {string} name */
  const column = (name) => what.tokens.map((token) => token[name]);
  const input = { ids: column("id"), types: what.tokens.map(() => 0), mask: column("mask") };
  const steps = await current.live.ask("run", input);
  return new Numbers(steps.get(stateName(sizes.layers)));
}

/**
 * Returns the effects of segments and padding on a text: a cosine, the largest difference, and the
 * length of a [PAD]'s vector.
 * @param {Computed} what
 */
async function segmentsAndPads(what) {
  const last = hiddenState(sizes.layers, what);
  const plain = await withoutSegments(what);
  const seq = what.tokens.length;
  const padTo = Math.min(seq + PADS, current.live.longest);
  const { text, pair } = what.request;
  const padded = hiddenState(sizes.layers, await current.live.compute({ text, pair, padTo }));
  let difference = 0;
  for (let i = 0; i < seq; i++) {
    const row = padded.row(i);
    last.row(i).forEach((value, c) => {
      difference = Math.max(difference, Math.abs(value - row[c]));
    });
  }
  return {
    segments: cosine(last.row(0), plain.row(0)),
    difference,
    pad: padTo > seq ? lengthOf(padded.row(seq)) : 0,
  };
}

/**
 * Probability that each of the article's pairs follows: in order, reversed, and with second texts
 * of other pairs.
 */
const judging = new Experiment(
  "judging",
  () => example("pair").many ?? [],
  async ([first, second], place) => {
    const { many } = example("pair");
    const others = SHIFTS.map((shift) => many[(place + shift) % many.length][1]);
    const texts = [[first, second], [second, first], ...others.map((other) => [first, other])];
    const likely = [];
    for (const [text, pair] of texts) {
      likely.push(followsOf(await current.live.compute({ text, pair })));
    }
    const [real, turned, ...swapped] = likely;
    return { real, turned, swapped };
  },
);

/** Returns the rows and values of the other pairs. */
function judgedPairs() {
  const { results } = judging;
  /** @param {any} values */
  const follow = (values) => values.filter((/** @type {any} */ value) => value > 0.5).length;
  const swapped = results.flatMap((own) => own.swapped);
  const likelier = results.flatMap((own) =>
    own.swapped.filter((/** @type {any} */ other) => own.real > other),
  );
  /** @type {Record<string, string>} */
  const said = {
    real: shareOf(follow(results.map((own) => own.real)), results.length),
    turned: shareOf(follow(results.map((own) => own.turned)), results.length),
    swapped: shareOf(follow(swapped), swapped.length),
    likelier: shareOf(likelier.length, swapped.length),
  };
  return {
    rows: ["real", "swapped", "turned", "likelier"].map((name) => [name, "", said[name]]),
    values: said,
  };
}

/** @type {Scene} */
export const scene = {
  id: "pair",
  needs: "cls.seq_relationship.weight",
  set: () => {
    const [text, pair] = example("pair").texts;
    return { section: "pooler", text, pair, token: 0 };
  },
  act: () => {
    const { texts, other } = example("pair");
    return { text: texts[0], pair: other };
  },
  experiments: () => [judging],
  measure: async (before, now) => {
    const both = [before, now];
    const [a, b] = both.map((what) => followsOf(what) ?? 0);
    const found = await Promise.all(
      both.map((what) => (what.segmentsAndPads ??= segmentsAndPads(what))),
    );
    const many = judgedPairs();
    /**
     * @param {string} name
     * @param {number} digits
     */
    const each = (name, digits) => found.map((own) => own[name].toFixed(digits));
    return {
      rows: [
        ["follows", brief(a), brief(b)],
        ...many.rows,
        ["segments", ...each("segments", 3)],
        ["difference", ...each("difference", 6)],
        ["pad", ...each("pad", 1)],
      ],
      outcome: choiceOf(b < 0.5, b < a),
      values: {
        before: brief(a),
        after: brief(b),
        segments: each("segments", 3)[1],
        pad: each("pad", 1)[1],
        ...many.values,
      },
    };
  },
  own: (before, now) => [
    [
      "follows",
      ...[before, now].map((what) => (what.request.pair ? brief(followsOf(what) ?? 0) : "–")),
    ],
  ],
};
