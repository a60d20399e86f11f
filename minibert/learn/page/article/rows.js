// Rows of verdicts that several scenes show.

import { example } from "./contents.js";
import { brief, shareOf } from "./wording.js";
import { clamp } from "../model/ranges.js";
import { average } from "../model/statistics.js";
import { cosine } from "../model/vectors.js";
import { answersOf, inner, placeIn, placeOf } from "../state/computed-text.js";
import { current, hiddenState } from "../state/current.js";
import { sizes } from "../state/page.js";
import { state } from "../state/store.js";
import { compareCosine, compareTexts, comparison, wished } from "../views/compare/texts.js";

/** Returns the sentences of the comparison, once they are computed. */
export async function comparedTexts() {
  await compareTexts();
  if (comparison.texts?.wish !== wished().join("\n")) {
    throw new Error(comparison.trouble);
  }
  return comparison.texts;
}

/**
 * Returns the cosines of the first compared sentence with the others at two depths, as rows.
 * @param {(texts: Computed[], depth: number, which: number) => number} alike
 */
export async function comparedRows(alike) {
  const texts = await comparedTexts();
  return texts
    .slice(1)
    .map((/** @type {any} */ { request }, /** @type {number} */ i) => [
      request.text,
      ...[0, state.depth].map((depth) => brief(alike(texts, depth, i + 1))),
    ]);
}

/**
 * Returns the score and the share between the chosen tokens of a text, with their names.
 * @param {Computed} what
 * @returns {any} its name, score, share and sum
 */
export function chosenPair(what) {
  const [query, key] = [state.token, state.key].map((at) => Math.min(at, what.tokens.length - 1));
  /** @param {string} name */
  const of = (name) =>
    what.steps.get(`layer.${state.layer}.attention.${name}`).at(state.head, query, key);
  return {
    name: `${what.tokens[query].piece} → ${what.tokens[key].piece}`,
    score: of("scores"),
    share: of("probabilities"),
    sum: what.steps
      .get(`layer.${state.layer}.attention.probabilities`)
      .row(state.head, query)
      .reduce((a, b) => a + b, 0),
  };
}

/**
 * Rows on a word in two texts: its places, and the cosines of its vectors if both have it.
 * @param {Computed} before
 * @param {Computed} now
 * @param {string} word
 */
export function sameWordRows(before, now, word) {
  const places = [before, now].map((what) => placeOf(what, word));
  const rows = [[`place of “${word}”`, ...places.map((at) => (at < 0 ? "–" : at))]];
  if (places.includes(-1)) {
    return rows;
  }
  /** @param {number} depth */
  const alike = (depth) =>
    cosine(hiddenState(depth, before).row(places[0]), hiddenState(depth, now).row(places[1]));
  return [
    ...rows,
    ["alike.any", `h0: ${brief(alike(0))}`, `h${sizes.layers}: ${brief(alike(sizes.layers))}`],
  ];
}

/** Rows on the chosen token in the compared sentences, if all of them have it. */
export async function ownComparison() {
  const texts = await comparedTexts();
  const piece = texts[0].tokens[clamp(state.token, 0, texts[0].tokens.length - 1)].piece;
  const places = texts.map((/** @type {any} */ what) => placeOf(what, piece));
  if (places.includes(-1)) {
    return [
      ["missing", piece, places.map((/** @type {any} */ at) => (at < 0 ? "–" : at)).join(", ")],
    ];
  }
  return texts
    .slice(1)
    .map((/** @type {any} */ { request }, /** @type {number} */ i) => [
      `${piece}: ${request.text}`,
      ...[0, state.depth].map(
        (depth) => `h${depth}: ${brief(compareCosine(depth, places[0], places[i + 1], i + 1))}`,
      ),
    ]);
}

/**
 * Returns what changes of the three vectors of a word if it stands in another place.
 * @param {Computed} before
 * @param {Computed} now
 * @param {string} word
 */
export function vectorsOfPlace(before, now, word) {
  const [i, j] = [before, now].map((what) => placeOf(what, word));
  const names = ["word", "token_type", "position"];
  /**
   * @param {Computed} what
   * @param {string} name
   * @param {number} at
   */
  const row = (what, name, at) => what.steps.get(`embeddings.${name}`).row(at);
  const alike = names.map((name) => cosine(row(before, name, i), row(now, name, j)));
  const places = inner(before).map((_, at) => at + 1);
  const angles = places.flatMap((at) =>
    places.map((to) => Math.abs(cosine(row(before, "word", at), row(before, "position", to)))),
  );
  const output = brief(cosine(row(before, "output", i), row(now, "output", j)));
  return {
    rows: [
      ...names.map((name, n) => [name, brief(1), brief(alike[n])]),
      ["output", brief(1), output],
    ],
    outcome: alike.indexOf(Math.min(...alike)),
    values: {
      alike: output,
      angle: average(angles).toFixed(2),
      random: Math.sqrt(2 / (Math.PI * sizes.hidden)).toFixed(2),
    },
  };
}

/**
 * Returns a head that an article names, or the last one of a smaller model.
 * @param {{layer: number, head: number}} of
 */
export const namedHead = ({ layer, head }) => ({
  layer: Math.min(layer, sizes.layers - 1),
  head: Math.min(head, sizes.heads - 1),
});

export const exampleOfWhys = () => {
  const { text } = example("layer");
  return { text, token: placeIn(text, "[MASK]") };
};

export const layerNumbers = () => [...Array(sizes.layers).keys()];

/**
 * Returns whether the best word of each altered request is that of the whole model.
 * @param {string} text
 * @param {Partial<ModelRequest>[]} alterations
 */
export async function keptAnswers(text, alterations) {
  const [[word]] = await answersOf(await current.live.compute({ text }));
  const kept = [];
  for (const alteration of alterations) {
    const [best] = await answersOf(await current.live.compute({ text, ...alteration }));
    kept.push(best[0] === word);
  }
  return kept;
}

/**
 * Returns how many results have a true entry at an index, as a share.
 * @param {{results: any[]}} of
 * @param {number} index
 */
export const survivors = ({ results }, index) =>
  shareOf(results.filter((own) => own[index]).length, results.length);
