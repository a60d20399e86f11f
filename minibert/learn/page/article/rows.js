// Rows of verdicts that several scenes show.

import { computeOnce, example } from "./contents.js";
import { firstState } from "./question.js";
import { brief, shareOf } from "./wording.js";
import { clamp } from "../model/ranges.js";
import { average } from "../model/statistics.js";
import { cosine } from "../model/vectors.js";
import { answersOf, inner, placeIn, placeOf } from "../state/computed-text.js";
import { current, hiddenState } from "../state/current.js";
import { sizes } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";
import { compareTexts, comparison, wished } from "../views/compare/texts.js";

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
 * Returns the score and the share between two tokens of a text in a head.
 * @param {Computed} what
 * @param {HeadPlace} place
 * @param {number} query
 * @param {number} key
 */
function betweenTokens(what, { layer, head }, query, key) {
  /** @param {string} name */
  const of = (name) => what.steps.get(`layer.${layer}.attention.${name}`).at(head, query, key);
  return {
    name: `${what.tokens[query].piece} → ${what.tokens[key].piece}`,
    score: of("scores"),
    share: of("probabilities"),
  };
}

/**
 * Returns the score and the share between the chosen tokens of a text, with their names.
 * @param {Computed} what
 * @returns {any} its name, score, share and the sum of all shares
 */
export function chosenPair(what) {
  const [query, key] = [state.token, state.key].map((at) => Math.min(at, what.tokens.length - 1));
  const sum = what.steps
    .get(`layer.${state.layer}.attention.probabilities`)
    .row(state.head, query)
    .reduce((a, b) => a + b, 0);
  return { ...betweenTokens(what, state, query, key), sum };
}

/**
 * Rows on two words in two texts, whatever the reader typed: in the head that the scene began with,
 * and in the one that is chosen now. The words are the chosen tokens, or those of the scene as long
 * as the reader has not chosen others: a position that was kept means another word in another text,
 * and in a shorter text it is the last one. Where a text lacks one of them, there is nothing to
 * compare.
 * @param {Scene} scene
 * @param {Computed} before
 * @param {Computed} now
 */
export function pairAnyway(scene, before, now) {
  const first = firstState(scene);
  /**
   * @param {Computed} what
   * @param {number} at
   */
  const within = (what, at) => Math.min(at, what.tokens.length - 1);
  const isKept = [
    [state.token, first.token],
    [state.key, first.key],
  ].every(([at, began]) => at === began || at === within(now, began));
  const source = isKept ? before : now;
  const chosen = isKept
    ? [first.token, first.key]
    : [state.token, state.key].map((at) => within(now, at));
  const pieces = chosen.map((at) => source.tokens[at].piece);
  /** @param {Computed} what */
  const placesIn = (what) =>
    chosen.map((at, i) => (what.tokens[at]?.piece === pieces[i] ? at : placeOf(what, pieces[i])));
  /** @type {[Computed, HeadPlace][]} */
  const sides = [
    [before, first],
    [now, state],
  ];
  const pairs = sides.map(([what, place]) => {
    const [query, key] = placesIn(what);
    return query < 0 || key < 0 ? null : betweenTokens(what, place, query, key);
  });
  /** @param {"score" | "share"} name */
  const each = (name) => pairs.map((pair) => (pair ? brief(pair[name]) : "–"));
  return [
    ["pair", ...pairs.map((pair) => pair?.name ?? "–")],
    ["head.any", ...sides.map(([, { layer, head }]) => `${layer}.${head}`)],
    ["score", ...each("score")],
    ["share.any", ...each("share")],
  ];
}

/**
 * Rows on a word in two texts: its places, and the cosines of its vectors if both have it.
 * @param {Computed} before
 * @param {Computed} now
 * @param {string} word
 */
export function sameWordRows(before, now, word) {
  const places = [before, now].map((what) => placeOf(what, word));
  const rows = [[t("lesson.place.of", { word }), ...places.map((at) => (at < 0 ? "–" : at))]];
  if (places.includes(-1)) {
    return rows;
  }
  /** @param {number} depth */
  const alike = (depth) =>
    cosine(hiddenState(depth, before).row(places[0]), hiddenState(depth, now).row(places[1]));
  return [
    ...rows,
    // of both texts, so it is nothing that was there before
    ["alike.any", "", `h0: ${brief(alike(0))}, h${sizes.layers}: ${brief(alike(sizes.layers))}`],
  ];
}

/**
 * Rows on the compared sentences, as the scene began and as they are now, whatever the reader typed.
 * @param {Scene} scene
 * @param {(texts: Computed[], depth: number, which: number) => number | null} alike
 */
export async function comparedAnyway(scene, alike) {
  const first = firstState(scene);
  const before = await Promise.all([first.text, first.other, first.same].map(computeOnce));
  const now = await comparedTexts();
  /**
   * @param {Computed[]} texts
   * @param {number} depth
   * @param {number} which
   */
  const said = (texts, depth, which) => {
    const value = which < texts.length ? alike(texts, depth, which) : null;
    return value === null ? "–" : `h${depth}: ${brief(value)}`;
  };
  /** @param {number} which */
  const textsOf = (which) => [before, now].map((texts) => texts[which]?.request.text ?? "–");
  return [
    ["sentence.1", ...textsOf(0)],
    ...[1, 2].flatMap((which) => [
      [`sentence.${which + 1}`, ...textsOf(which)],
      ["alike.first", said(before, first.depth, which), said(now, state.depth, which)],
    ]),
  ];
}

/**
 * Rows on a word of the compared sentences: the one that the scene chose, or that of the reader.
 * @param {Scene} scene
 */
export async function ownComparison(scene) {
  const first = firstState(scene);
  const started = await computeOnce(first.text);
  const texts = await comparedTexts();
  const source = state.token === first.token ? started : texts[0];
  const { piece } = source.tokens[clamp(state.token, 0, source.tokens.length - 1)];
  /**
   * @param {Computed[]} some
   * @param {number} depth
   * @param {number} which
   */
  const alike = (some, depth, which) => {
    const [one, other] = [some[0], some[which]];
    const [i, j] = [placeOf(one, piece), placeOf(other, piece)];
    return i < 0 || j < 0
      ? null
      : cosine(hiddenState(depth, one).row(i), hiddenState(depth, other).row(j));
  };
  return [["token.compared", piece, piece], ...(await comparedAnyway(scene, alike))];
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
  const angle = average(angles);
  const random = Math.sqrt(2 / (Math.PI * sizes.hidden));
  return {
    rows: [
      ...names.map((name, n) => [name, brief(1), brief(alike[n])]),
      ["output", brief(1), output],
    ],
    outcome: alike.indexOf(Math.min(...alike)),
    values: {
      alike: output,
      apart: t(`lesson.place.apart.${angle > 1.25 * random ? "less" : "as"}`, {
        angle: angle.toFixed(2),
        random: random.toFixed(2),
        times: (angle / random).toFixed(1),
      }),
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
