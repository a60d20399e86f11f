// The attention of every head over hundreds of sentences.

import { keep } from "./contents.js";
import { Experiment } from "./experiment.js";
import { firstState } from "./question.js";
import { brief, choiceOf } from "./wording.js";
import { written } from "../model/numbers.js";
import { patternRules, patternShare } from "../model/patterns.js";
import { average, errorOf, spread } from "../model/statistics.js";
import { change } from "../state/change.js";
import { everyHead } from "../state/computed-text.js";
import { attention, current } from "../state/current.js";
import { page, sizes } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

const NO_SHARE = 255; // in a sentence that a pattern does not apply to

/**
 * Returns the share of attention that a uniform head would give to each pattern.
 * @param {{piece: string}[]} own
 */
function evenShare(own) {
  const { real, rules } = patternRules(own);
  return Object.fromEntries(
    Object.entries(rules).map(([name, rule]) => {
      const counts = real.map((i) => rule(i).length).filter(Boolean);
      return [name, counts.length ? average(counts) / own.length : null];
    }),
  );
}

/**
 * The attention that every head gives to every pattern in each sentence of the article. A result
 * holds one byte for each pattern and head, after one for a uniform head: 254 times the share.
 */
export const evidence = new Experiment(
  "evidence",
  () => page.lesson.sentences,
  async (text) => {
    const { tokens: own, steps } = await current.live.compute({ text });
    const { real, rules } = patternRules(own);
    const even = evenShare(own);
    const shares = Object.keys(rules).flatMap((name) => [
      even[name],
      ...everyHead().map(([layer, head]) =>
        patternShare(steps.get(`layer.${layer}.attention.probabilities`), head, real, rules[name]),
      ),
    ]);
    const bytes = shares.map((share) => (share === null ? NO_SHARE : Math.round(254 * share)));
    return btoa(String.fromCharCode(...bytes));
  },
  (a, b) => {
    const [one, other] = [atob(a), atob(b)];
    return [...one].every((byte, i) => Math.abs(byte.charCodeAt(0) - other.charCodeAt(i)) <= 2);
  },
);

/**
 * Returns the shares of a pattern in all sentences: those of a uniform head, then of each head.
 * @param {string} rule
 */
function evidenceFor(rule) {
  return keep(`evidence.${rule}.${evidence.results.length}`, () => {
    const all = evidence.results.map((result) => atob(result));
    const width = 1 + sizes.layers * sizes.heads;
    const from = patternNames().indexOf(rule) * width;
    return Array.from({ length: width }, (_, i) =>
      all
        .map((bytes) => bytes.charCodeAt(from + i))
        .filter((value) => value !== NO_SHARE)
        .map((value) => value / 254),
    );
  });
}

const patternNames = () => Object.keys(patternRules(current.tokens).rules);

/**
 * @param {number} layer
 * @param {number} head
 * @param {string} [rule]
 */
const sharesOfHead = (layer, head, rule = state.rule) =>
  evidenceFor(rule)[1 + layer * sizes.heads + head];

/**
 * @param {number} layer
 * @param {number} head
 */
export const evidenceOf = (layer, head) => average(sharesOfHead(layer, head));

export const evenEvidence = (rule = state.rule) => average(evidenceFor(rule)[0]);

/**
 * Returns by how much a head's share exceeds that of a uniform head in the same sentences, with the
 * half width of its interval. `heads` is the number of heads that are looked at together.
 * @param {number} layer
 * @param {number} head
 * @param {any} [heads]
 */
function aboveChance(layer, head, heads = 1) {
  const even = evidenceFor(state.rule)[0];
  const differences = sharesOfHead(layer, head).map(
    (/** @type {any} */ share, /** @type {number} */ i) => share - even[i],
  );
  const wide = heads > 1 ? 3.3 / 1.96 : 1; // 0.05 / 48 for each of 48 heads
  return { mean: average(differences), error: wide * errorOf(differences) };
}

/** Returns how many heads exceed chance by more than the error of all of them together. */
function headsAboveChance() {
  const all = everyHead();
  return all.filter(([layer, head]) => {
    const { mean, error } = aboveChance(layer, head, all.length);
    return mean > error;
  }).length;
}

/**
 * Returns the head with the largest `share(probabilities, head)` on the current text.
 * @param {any} share
 */
function largestHead(share) {
  const shares = everyHead().map(([layer, head]) => share(attention(layer, "probabilities"), head));
  const [layer, head] = everyHead()[shares.indexOf(Math.max(...shares))];
  return { layer, head };
}

/** @type {Figure} */
export const evidenceFigure = {
  ready: () => evidence.complete,
  caption: () =>
    t("lesson.heads.caption", {
      rule: t(`pattern.${state.rule}`),
      count: sharesOfHead(0, 0).length,
    }),
  choices: () =>
    patternNames().map((name) => [
      t(`pattern.${name}`),
      name === state.rule,
      () => {
        const { real, rules } = patternRules(current.tokens);
        const head = largestHead(
          (/** @type {any} */ values, /** @type {any} */ own) =>
            patternShare(values, own, real, rules[name]) ?? 0,
        );
        change({ ...head, rule: name });
      },
    ]),
  legend: () => ["sequential", "0", "1"],
  plan: () => ({
    rows: sizes.layers,
    cols: sizes.heads,
    palette: "sequential",
    space: 300,
    tallest: 30,
    left: 40,
    smallest: [30, 24],
    cursor: [state.layer, state.head],
    rowLabel: (r) => `${r}`,
    colLabel: (c) => `${c}`,
    shade: (r, c) => evidenceOf(r, c),
    write: (r, c) => evidenceOf(r, c).toFixed(2),
    describe: (r, c) => {
      const head = t("attention.chosen", { layer: r, head: c });
      return `${head} · ${t(`pattern.${state.rule}`)}: ${written(evidenceOf(r, c))}`;
    },
    python: () => "",
    move: (layer, head) => change({ layer, head }),
  }),
};

/**
 * Compares the chosen head's share for the chosen pattern in the scene's own sentence and over many
 * sentences.
 * @param {Computed} before
 */
export function measurePattern(before) {
  const { layer, head, rule } = state;
  const { real, rules } = patternRules(before.tokens);
  const values = before.steps.get(`layer.${layer}.attention.probabilities`);
  const share = patternShare(values, head, real, rules[rule]) ?? 0;
  const all = sharesOfHead(layer, head);
  const mean = average(all);
  const error = errorOf(all);
  const even = evenEvidence();
  const above = aboveChance(layer, head);
  const heads = sizes.layers * sizes.heads;
  return {
    rows: [
      ["chosen", brief(share), `${brief(mean)} ± ${error.toFixed(3)}`],
      ["even", brief(evenShare(before.tokens)[rule] ?? 0), brief(even)],
      ["above", "", `${headsAboveChance()} / ${heads}`],
    ],
    heads: ["one", "many"],
    outcome: choiceOf(
      share <= mean + 1.96 * spread(all), // no unusual sentence
      above.mean > above.error,
    ),
    values: {
      layer,
      head,
      rule: t(`pattern.${rule}`),
      count: all.length,
      total: evidence.results.length,
      here: brief(share),
      mean: brief(mean),
      error: error.toFixed(3),
      even: brief(even),
      times: (mean / even).toFixed(1),
      above: headsAboveChance(),
    },
  };
}

/**
 * Rows on a head and a pattern, as the scene began and as the reader chose them, in the texts of
 * both and over many.
 * @param {Scene} scene
 * @param {Computed} before
 * @param {Computed} now
 */
export function ownPattern(scene, before, now) {
  if (!evidence.complete) {
    return [];
  }
  const both = /** @type {[Computed, Partial<State>][]} */ ([
    [before, firstState(scene)],
    [now, state],
  ]).map(([what, { layer = 0, head = 0, rule = "" }]) => {
    const { real, rules } = patternRules(what.tokens);
    const values = what.steps.get(`layer.${layer}.attention.probabilities`);
    const all = sharesOfHead(layer, head, rule);
    /** @param {number | null | undefined} value */
    const said = (value) => (value === null || value === undefined ? "–" : brief(value));
    return {
      pattern: `${t(`pattern.${rule}`)} (${layer}.${head})`,
      here: said(patternShare(values, head, real, rules[rule])),
      even: said(evenShare(what.tokens)[rule]),
      many: `${brief(average(all))} ± ${errorOf(all).toFixed(3)}`,
    };
  });
  return [
    ["pattern", ...both.map(({ pattern }) => pattern)],
    ["share.here", ...both.map(({ here }) => here)],
    ["even.here", ...both.map(({ even }) => even)],
    ["many.mean", ...both.map(({ many }) => many)],
  ];
}
