// The rows of one head with all its values: what happens to one token in one layer, step by step.
// Each value comes with the Python that prints it.

import { LOWEST } from "../../model/sides.js";
import { current, mayLook, numbers, piece, stateName } from "../../state/current.js";
import { page, sizes } from "../../state/page.js";
import { t } from "../../state/words.js";
import { viewed } from "../part/opened.js";

const FILES = { attention: "minibert/attention.py", layer: "minibert/encoder.py" };

export const headSize = () => sizes.hidden / sizes.heads;

/** @param {string} name */
export const inLayer = (name) => `layer.${viewed().layer}.${name}`;

/**
 * A row of a step: its label, its values, and the Python expression of the value in column c.
 *
 * Rows that are added together share a `scale`, so that their colors are comparable. Every other
 * row has its own scale.
 * @param {string} label
 * @param {string} name
 * @param {...number} place
 */
export const plain = (label, name, ...place) => ({
  label,
  name,
  /** @param {number} c */
  value: (c) => numbers(name).at(...place, c),
  /** @param {number} c */
  python: (c) => `t['${name}'][${[0, ...place, c].join(", ")}]`,
});

/**
 * Returns the value vector of token k, weighted by the attention of the chosen token.
 * @param {number} k
 */
export function weightedValue(k) {
  const { head, token } = viewed();
  const [shares, value] = ["probabilities", "value"].map((name) => inLayer(`attention.${name}`));
  return {
    label: `p × v “${piece(k)}”`,
    scale: "context",
    /** @param {number} c */
    value: (c) => numbers(shares).at(head, token, k) * numbers(value).at(head, k, c),
    /** @param {number} c */
    python: (c) =>
      `t['${shares}'][0, ${head}, ${token}, ${k}] * t['${value}'][0, ${head}, ${k}, ${c}]`,
  };
}

/** Returns the output of the chosen head for the chosen token. */
export function headOutput() {
  const { head, token } = viewed();
  const context = inLayer("attention.context");
  const first = head * headSize();
  return {
    label: t("head.sum"),
    scale: "context",
    /** @param {number} c */
    value: (c) => numbers(context).at(token, first + c),
    /** @param {number} c */
    python: (c) => `t['${context}'][0, ${token}, ${first + c}]`,
  };
}

/**
 * The steps: the file that computes each one, its width, and its rows for the current choice.
 * @type {any[]}
 */
export const HEAD_STEPS = [
  {
    id: "qk",
    file: FILES.attention,
    cols: headSize,
    names: ["attention.query", "attention.key"],
    rows: () => {
      const { head, token, key } = viewed();
      const [q, k] = ["attention.query", "attention.key"].map(inLayer);
      return [
        plain(`q “${piece(token)}”`, q, head, token),
        plain(`k “${piece(key)}”`, k, head, key),
        {
          label: "q × k",
          /** @param {number} c */
          value: (c) => numbers(q).at(head, token, c) * numbers(k).at(head, key, c),
          /** @param {number} c */
          python: (c) =>
            `t['${q}'][0, ${head}, ${token}, ${c}] * t['${k}'][0, ${head}, ${key}, ${c}]`,
        },
      ];
    },
  },
  {
    id: "scores",
    file: FILES.attention,
    cols: () => current.count,
    perToken: true,
    names: ["attention.scores", "attention.masked_scores", "attention.probabilities"],
    rows: () => {
      const { head, token } = viewed();
      const [q, k, scores, masked, shares] = [
        "query",
        "key",
        "scores",
        "masked_scores",
        "probabilities",
      ].map((name) => inLayer(`attention.${name}`));
      /** @param {string} name */
      const cell = (name) => (/** @type {number} */ c) =>
        `t['${name}'][0, ${head}, ${token}, ${c}]`;
      return [
        {
          label: "q · k",
          /** @param {number} c */
          value: (c) => numbers(scores).at(head, token, c) * Math.sqrt(headSize()),
          /** @param {number} c */
          python: (c) => `t['${q}'][0, ${head}, ${token}] @ t['${k}'][0, ${head}, ${c}]`,
        },
        {
          label: `/ √${headSize()}`,
          /** @param {number} c */
          value: (c) => numbers(scores).at(head, token, c),
          python: cell(scores),
        },
        {
          label: t("head.mask"),
          /** @param {number} c */
          value: (c) => (mayLook(token, c) ? numbers(scores).at(head, token, c) : LOWEST),
          python: cell(masked),
        },
        {
          label: t("attention.probabilities"),
          /** @param {number} c */
          value: (c) => numbers(shares).at(head, token, c),
          python: cell(shares),
        },
      ];
    },
  },
  {
    id: "values",
    file: FILES.attention,
    cols: headSize,
    names: ["attention.value", "attention.context"],
    rows: () => {
      const { head, key } = viewed();
      return [
        plain(`v “${piece(key)}”`, inLayer("attention.value"), head, key),
        ...current.tokens.map((_, k) => weightedValue(k)),
        headOutput(),
      ];
    },
  },
  {
    id: "mix",
    file: FILES.attention,
    cols: () => sizes.hidden,
    names: ["attention.projected", "attention.sum", "attention.output"],
    rows: () => [
      { ...plain("W_O + b", inLayer("attention.projected"), viewed().token), scale: "sum" },
      { ...plain(`h${viewed().layer}`, stateName(viewed().layer), viewed().token), scale: "sum" },
      { ...plain("+", inLayer("attention.sum"), viewed().token), scale: "sum" },
      plain("LayerNorm", inLayer("attention.output"), viewed().token),
    ],
  },
  {
    id: "widen",
    file: FILES.layer,
    cols: () => sizes.intermediate,
    names: ["widened", "intermediate"],
    rows: () => [
      plain("W₁ + b₁", inLayer("widened"), viewed().token),
      plain(page.activation, inLayer("intermediate"), viewed().token),
    ],
  },
  {
    id: "narrow",
    file: FILES.layer,
    cols: () => sizes.hidden,
    names: ["narrowed", "sum", "output"],
    rows: () => [
      { ...plain("W₂ + b₂", inLayer("narrowed"), viewed().token), scale: "sum" },
      { ...plain(t("head.attended"), inLayer("attention.output"), viewed().token), scale: "sum" },
      { ...plain("+", inLayer("sum"), viewed().token), scale: "sum" },
      plain(`LayerNorm = h${viewed().layer + 1}`, inLayer("output"), viewed().token),
    ],
  },
];
