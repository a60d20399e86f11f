// Backpropagation: the gradient of every number between a weight and the loss, from the loss back.

import { example } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { brief, choiceOf, shareOf } from "../../wording.js";
import { placeToHide, sentencesToHide } from "../sides/scene.js";
import { lossOfHidden } from "../step/scene.js";
import { average } from "../../../model/statistics.js";
import { lengthOf } from "../../../model/vectors.js";
import { element } from "../../../parts/elements.js";
import { literal } from "../../../parts/python.js";
import { change } from "../../../state/change.js";
import { placeIn, placeOf } from "../../../state/computed-text.js";
import { current, hiddenState } from "../../../state/current.js";
import { page, sizes } from "../../../state/page.js";
import { announce } from "../../../state/store.js";
import { t } from "../../../state/words.js";

/** @typedef {Awaited<ReturnType<import("../../../model/live.js").Live["backward"]>>} Back */

const SENTENCES = 40; // of the article, in which one piece is hidden

const NEAR = 0.01; // how far a measured slope may be from a gradient, relative to it

const MOVE = 0.1; // length by which the reader moves a vector

/**
 * Returns the lengths of the gradients at one depth, a number for each token.
 * @param {Tensor} gradient
 */
const lengths = ({ shape: [count, size], data }) =>
  Array.from({ length: count }, (_, i) => lengthOf(data.subarray(i * size, (i + 1) * size)));

/** Where the gradient at h0 lies when a piece of a sentence is hidden, and whether it is right. */
const returning = new Experiment(
  "returning",
  () => sentencesToHide().slice(0, SENTENCES),
  async (text, number) => {
    const tokens = current.live.tokens({ text });
    const place = placeToHide(tokens, number);
    const back = await current.live.backward({ text, masked: [place] }, place, tokens[place].id);
    const first = lengths(back.states[0]);
    const { gradient, measured } = back.way[back.way.length - 1];
    return {
      least: Math.min(...first) / Math.max(...first),
      isHome: Math.max(...first) === first[place],
      slopes: [gradient, measured],
    };
  },
);

/**
 * The gradients of the scene's text, and the vector that the reader moved.
 * @type {{of: Computed | null, back: Back | null, depth: number, token: number,
 *   moved: number[] | null}}
 */
const found = { of: null, back: null, depth: 0, token: 0, moved: null };

/**
 * Returns the gradients of a computed text, computed once.
 * @param {Computed} what
 * @returns {Promise<Back>}
 */
function backThrough(what) {
  const word = current.live.tokenizer.ids.get(example("step").hidden);
  what.back ??= current.live.backward(what.request, placeOf(what, "[MASK]"), word);
  return what.back;
}

/**
 * Moves a vector against its gradient, and computes everything behind it again.
 * @param {number} depth
 * @param {number} token
 */
async function moveAt(depth, token) {
  const { of: what, back } = found;
  if (!what || !back) {
    return;
  }
  const { shape, data } = hiddenState(depth, what);
  const gradient = back.states[depth].data.subarray(token * shape[1], (token + 1) * shape[1]);
  const long = lengthOf(gradient);
  const states = { shape, data: Float32Array.from(data) };
  for (let i = 0; long && i < shape[1]; i++) {
    states.data[token * shape[1] + i] -= (MOVE * gradient[i]) / long;
  }
  const now = await current.live.compute({ ...what.request, from: depth, states });
  Object.assign(found, {
    depth,
    token,
    moved: [-MOVE * long, (await lossOfHidden(now)).loss - back.loss],
  });
  announce("measured");
}

/**
 * Returns a number with a sign that is no hyphen.
 * @param {number} value
 * @param {number} [digits]
 */
const signed = (value, digits = 3) =>
  value
    .toFixed(digits)
    .replace("-", "−")
    .replace(/^−(0\.0+)$/, "$1");

/**
 * Returns how the gradient of a number before the scores comes about, and that of the weight.
 * @param {Back} back
 */
function sums({ way, parts }) {
  const { vocabulary } = current.live.tokenizer;
  const terms = parts.map(
    ([id, slope, weight]) => `${signed(slope)} · ${signed(weight)} (${vocabulary[id]})`,
  );
  const [, total] = way;
  const [sum, weight] = way.slice(-2);
  return t("lesson.back.sums", {
    total: signed(total.gradient),
    terms: terms.join(" + "),
    weight: signed(weight.gradient),
    sum: signed(sum.gradient),
    neuron: signed(weight.gradient / sum.gradient),
  });
}

/** @type {Figure} */
const backFigure = {
  async begin(before) {
    if (found.of !== before) {
      Object.assign(found, { of: before, back: await backThrough(before), moved: null });
      await moveAt(0, placeOf(before, "[MASK]"));
    }
  },
  ready: () => Boolean(found.back),
  caption: () => t("lesson.back.caption", { last: sizes.layers }),
  choices: () => [],
  legend: () => ["sequential", "0", most().toFixed(2)],
  said: () =>
    found.moved
      ? t("lesson.back.moved", {
          token: found.of?.tokens[found.token].piece ?? "",
          depth: found.depth,
          predicted: signed(found.moved[0], 4),
          measured: signed(found.moved[1], 4),
        })
      : "",
  plan: () => {
    const what = /** @type {Computed} */ (found.of);
    const back = /** @type {Back} */ (found.back);
    const cells = back.states.map(lengths);
    const longest = Math.max(...cells.flat());
    /** @param {number} c */
    const depthOf = (c) => sizes.layers - c; // the way back reads from left to right
    /**
     * @param {number} r
     * @param {number} c
     */
    const value = (r, c) => cells[depthOf(c)][r];
    return {
      rows: what.tokens.length,
      cols: cells.length,
      palette: "sequential",
      space: 420,
      tallest: 24,
      left: 84,
      smallest: [34, 22],
      cursor: [found.token, depthOf(found.depth)],
      rowLabel: (r) => what.tokens[r].piece,
      colLabel: (c) => `h${depthOf(c)}`,
      shade: (r, c) => value(r, c) / longest,
      write: (r, c) => value(r, c).toFixed(2),
      describe: (r, c) =>
        t("lesson.back.cell", {
          token: what.tokens[r].piece,
          depth: depthOf(c),
          value: value(r, c).toFixed(4),
        }),
      python: (r, c) => {
        const word = current.live.tokenizer.ids.get(example("step").hidden);
        const place = placeOf(what, "[MASK]");
        return (
          "import torch; from minibert.study import rounded; " +
          "from minibert import BertForPreTraining, BertTokenizer; " +
          `name = ${literal(page.source)}; ` +
          "model, cut = rounded(BertForPreTraining.from_pretrained(name)).eval(), " +
          "BertTokenizer.from_pretrained(name); " +
          `out = model(**cut(${literal(what.request.text)}, return_tensors="pt"), ` +
          "output_hidden_states=True); " +
          `loss = -out.prediction_logits.log_softmax(-1)[0, ${place}, ${word}]; ` +
          "gradients = torch.autograd.grad(loss, out.hidden_states); " +
          `print(f"{gradients[${depthOf(c)}][0, ${r}].norm():.4f}")`
        );
      },
      move: (token, c) => {
        Object.assign(found, { depth: depthOf(c), token, moved: null });
        change({ token });
        moveAt(depthOf(c), token);
      },
    };
  },
  draw(box) {
    const back = /** @type {Back} */ (found.back);
    const table = element("table");
    const head = table.createTHead().insertRow();
    head.append(
      element("td"),
      ...["value", "gradient", "nudged"].map((name) =>
        element("th", t(`lesson.back.${name}`), { scope: "col" }),
      ),
    );
    const body = table.createTBody();
    for (const { name, at, value, gradient, measured } of back.way) {
      const row = body.insertRow();
      const [number, neuron = ""] = at;
      const label = t(`lesson.back.way.${name}`, {
        number,
        neuron,
        word: example("step").hidden,
        last: sizes.layers,
        layer: sizes.layers - 1,
      });
      row.append(
        element("th", label, { scope: "row" }),
        ...[value, gradient, measured].map((own) => element("td", signed(own))),
      );
    }
    box.replaceChildren(
      element("p", t("lesson.back.way", { count: back.way.length })),
      table,
      element("p", sums(back)),
    );
  },
};

/** Returns the longest gradient in the map. */
const most = () => Math.max(...(found.back?.states.flatMap(lengths) ?? []));

/** @type {Scene} */
export const scene = {
  id: "back",
  set: () => {
    const { text } = example("step");
    return { section: "predictions", text, token: placeIn(text, "[MASK]") };
  },
  act: () => ({}),
  amounts: () => ({
    masked_word: example("step").hidden,
    many: Math.min(sentencesToHide().length, SENTENCES),
  }),
  experiments: () => [returning],
  figure: backFigure,
  measure: async (before) => {
    const back = await backThrough(before);
    const place = placeOf(before, "[MASK]");
    const all = back.states.map(lengths);
    const [first] = all;
    const others = first.map((long, i) => (i === place ? 0 : long));
    const top = others.indexOf(Math.max(...others));
    const reached = others.filter((long) => long > 0);
    const near = [place - 1, place + 1];
    const { results } = returning;
    const right = results.filter(
      ({ slopes: [gradient, measured] }) =>
        Math.abs(measured - gradient) <= NEAR * Math.abs(gradient),
    );
    /** @param {(result: any) => boolean} holds */
    const share = (holds) => shareOf(results.filter(holds).length, results.length);
    return {
      rows: [
        ...all.map((own, depth) => [`h${depth}`, brief(own[place]), brief(own[top])]).reverse(),
        ["away", "", share(({ isHome }) => !isHome)],
        ["reached", "", share(({ least }) => least > 0)],
        ["agree", "", shareOf(right.length, results.length)],
      ],
      heads: ["[MASK]", before.tokens[top].piece],
      outcome: choiceOf(
        !reached.length,
        others.every((long, i) => !long || near.includes(i)),
      ),
      verdict: 0,
      values: {
        last: sizes.layers,
        own: brief(all[sizes.layers][place]),
        tokens: first.length,
        top: before.tokens[top].piece,
        top_length: brief(first[top]),
        mask_length: brief(first[place]),
        least: Math.min(...first).toFixed(2),
        away: share(({ isHome }) => !isHome),
        reached: results.filter(({ least }) => least > 0).length,
        right: right.length,
        all: results.length,
        apart: (100 * average(results.map(({ slopes: [a, b] }) => Math.abs(b / a - 1)))).toFixed(2),
      },
    };
  },
};
