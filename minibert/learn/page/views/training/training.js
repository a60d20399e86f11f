// The tab on training: how a model learned.

import { average } from "../../model/statistics.js";
import { centered, onPlane, principalAxes } from "../../model/vectors.js";
import { prepare } from "../../parts/canvas.js";
import { color } from "../../parts/colors.js";
import { $, element } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { legend } from "../../parts/legend.js";
import { drawPlane } from "../../parts/plane.js";
import { literal, stepCell } from "../../parts/python.js";
import { change } from "../../state/change.js";
import { page } from "../../state/page.js";
import { draw, state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { awakePupils, forgetPrompts, questionPupil } from "./snapshots.js";

/** @type {Record<string, any>} */
export const answers = { of: -1, prompts: [] }; // predictions of the current snapshot

/** @param {number} i */
export const snapshotName = (i) =>
  t("training.step", { step: page.run.steps[i].toLocaleString("en") });

export function buildTraining() {
  if (!page.run) {
    return;
  }
  const { run } = page;
  $("snapshot").max = run.snapshots.length - 1;
  $("snapshot").oninput = () => {
    stopPlaying();
    change({ snapshot: Number($("snapshot").value) });
  };
  $("play").onclick = play;
  for (const [id, most] of [
    ["layer", run.config.num_hidden_layers],
    ["head", run.config.num_attention_heads],
  ]) {
    $(`forming-${id}`).replaceChildren(
      ...Array.from({ length: most }, (_, i) => element("option", i, { value: i })),
    );
    $(`forming-${id}`).onchange = () => {
      forming[id] = Number($(`forming-${id}`).value);
      draw();
    };
  }
  const body = element("tbody");
  for (let i = 0; i < 5; i++) {
    const row = element("tr");
    const cell = element("td");
    const input = element("input", "", {
      type: "text",
      spellcheck: false,
      dir: "auto",
      disabled: true, // until the models are loaded, with which its text comes
    });
    input.oninput = () => {
      run.prompts[i] = input.value;
      forming.prompt = i;
      forgetPrompts();
      draw();
    };
    input.onfocus = () => {
      forming.prompt = i;
      drawForming();
    };
    cell.append(input);
    row.append(cell, element("td", "", { dir: "auto" }));
    body.append(row);
  }
  $("prompts").replaceChildren(body);
}

/** @type {any} */
let playing = null; // the timer of the next snapshot

/** Plays the snapshots in order, starting over after the last one. Stops if it is playing. */
function play() {
  if (playing !== null) {
    stopPlaying();
    draw();
    return;
  }
  const last = page.run.snapshots.length - 1;
  const next = () => {
    if (state.section !== "training" || state.snapshot === last) {
      stopPlaying();
      draw();
    } else {
      playing = setTimeout(next, 1400);
      change({ snapshot: state.snapshot + 1 });
    }
  };
  playing = setTimeout(next, 1400);
  change({ snapshot: state.snapshot === last ? 0 : state.snapshot });
}

function stopPlaying() {
  clearTimeout(playing);
  playing = null;
}

/** @type {Record<string, any>} */
export const forming = { layer: 0, head: 0, prompt: 0 }; // the head whose pattern is shown, and its prompt

/** Lets the reader edit the prompts, once the models are loaded. */
function fillPrompts() {
  for (const [i, input] of [...$("prompts").querySelectorAll("input")].entries()) {
    if (input.disabled) {
      Object.assign(input, { value: page.run.prompts[i], disabled: false });
      input.setAttribute("aria-label", t("training.prompt", { number: i + 1 }));
    }
  }
}

/**
 * Draws word vectors of the current snapshot, with lines from those of the first, on the plane of
 * the last.
 * @param {number} i
 */
async function drawWords(i) {
  const vectors = await Promise.all(
    [0, i, page.run.snapshots.length - 1].map(async (at) => (await questionPupil(at)).vectors),
  );
  if (i !== state.snapshot) {
    return;
  }
  const { words } = page.run;
  const hues = [
    ...color("pins")
      .split(",")
      .map((hue) => hue.trim()),
    color("accent"),
    color("ink"),
  ];
  const rows = vectors.map((own) =>
    centered(words.map((/** @type {any} */ _, /** @type {any} */ w) => own.row(w))),
  );
  const [first, now] = onPlane(rows, principalAxes(rows[rows.length - 1]));
  drawPlane(
    $("words-plane"),
    now,
    first,
    words.map((/** @type {any[]} */ [word]) => word),
    -1,
    (w) => hues[words[w][1]],
  );
}

export const formingMap = new HeatMap("forming-map", () => {
  const { prompt, layer, head, found } = forming;
  const { tokens: own, steps } = found;
  const values = steps.get(`layer.${layer}.attention.probabilities`);
  const at = (forming.cursor ?? [0, 0]).map((/** @type {any} */ place) =>
    Math.min(place, own.length - 1),
  );
  return {
    rows: own.length,
    cols: own.length,
    square: true,
    slanted: true,
    top: 78,
    space: 380,
    cursor: at,
    palette: "sequential",
    /** @param {number} r */
    rowLabel: (r) => own[r].piece,
    /** @param {number} c */
    colLabel: (c) => own[c].piece,
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => Math.sqrt(values.at(head, r, c)),
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) => {
      const cell = t("attention.cell", {
        layer,
        head,
        query: own[r].piece,
        key: own[c].piece,
        value: values.text(head, r, c),
      });
      return `${snapshotName(state.snapshot)} · ${cell}`;
    },
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) => {
      if (!page.run.folder) {
        return "";
      }
      const step = String(page.run.steps[state.snapshot]).padStart(6, "0");
      const snapshot = literal(`${page.run.folder}/checkpoints/step-${step}`);
      const cell = stepCell(`layer.${layer}.attention.probabilities`, head, r, c);
      return (
        `from minibert.study import run; t = run(${snapshot}, ` +
        `${literal(page.run.prompts[prompt])}, rounded=True); print(f"{${cell}:.4f}")`
      );
    },
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => {
      forming.cursor = [r, c];
      formingMap.draw();
    },
  };
});

function drawForming() {
  const { prompts } = answers;
  const { layer, head, prompt } = forming;
  if (!prompts[prompt]?.steps) {
    return;
  }
  forming.found = prompts[prompt];
  for (const name of ["layer", "head"]) {
    $(`forming-${name}`).value = forming[name];
  }
  $("forming-caption").textContent = t("training.forming", {
    layer,
    head,
    step: snapshotName(state.snapshot),
  });
  formingMap.draw();
  legend("forming-legend", "sequential", "0", "1");
}

/**
 * Draws the logged losses over the steps. Steps are on a logarithmic axis, because most is learned
 * early.
 */
function drawLoss() {
  const canvas = $("loss");
  const { log, steps } = page.run;
  const width = Math.max(canvas.parentElement.clientWidth, 240);
  const height = 220;
  const context = prepare(canvas, width, height);
  const chance = Math.log(page.run.parameters[0][1][0]);
  const most = Math.max(chance, ...log.map((/** @type {any[]} */ [, loss]) => loss)) * 1.05;
  const last = Math.max(steps.at(-1), log.at(-1)?.[0] ?? 1);
  /**
   * @param {number} step
   * @param {number} loss
   */
  const place = (step, loss) => [
    44 + (Math.log1p(step) / Math.log1p(last)) * (width - 56),
    10 + (1 - loss / most) * (height - 36),
  ];
  /**
   * @param {number[][]} points
   * @param {string} stroke
   * @param {any} [dashes]
   */
  const line = (points, stroke, dashes = []) => {
    context.strokeStyle = color(stroke);
    context.setLineDash(dashes);
    context.beginPath();
    points.forEach((point) => context.lineTo(...point));
    context.stroke();
  };
  context.fillStyle = color("soft");
  context.textAlign = "right";
  for (let loss = 0; loss <= most; loss += 2) {
    context.fillText(loss, 36, place(0, loss)[1]);
    line([place(0, loss), place(last, loss)], "line");
  }
  line([place(0, chance), place(last, chance)], "soft", [4, 4]);
  line(
    log.map((/** @type {any[]} */ [step, loss]) => place(step, loss)),
    "soft",
  );
  context.lineWidth = 2;
  line(
    log.map((/** @type {any[]} */ [step]) => place(step, smoothLoss(step))),
    "accent",
  );
  line([place(steps[state.snapshot], 0), place(steps[state.snapshot], most)], "cursor");
  context.textAlign = "center";
  for (let step = 1; step <= last; step *= 10) {
    context.fillText(step.toLocaleString("en"), place(step, 0)[0], height - 10);
  }
  $("loss-caption").textContent = t("training.loss", {
    chance: chance.toFixed(2),
    now: lossAt(state.snapshot),
  });
}

/**
 * Returns the mean loss of the points within 15% of a step, because single batches vary. If there
 * is none, the nearest point is used.
 * @param {number} step
 */
function smoothLoss(step) {
  const { log } = page.run;
  /** @param {any[]} of */
  const away = ([other]) => Math.abs(Math.log((other + 1) / (step + 1)));
  const near = log.filter((/** @type {any} */ point) => away(point) < 0.15);
  const nearest = log.reduce((/** @type {any} */ best, /** @type {any} */ point) =>
    away(point) < away(best) ? point : best,
  );
  return average((near.length ? near : [nearest]).map((/** @type {any[]} */ [, loss]) => loss));
}

/** @param {number} i */
export const lossAt = (i) => (page.run.log.length ? smoothLoss(page.run.steps[i]).toFixed(2) : "–");

export async function drawTraining() {
  const i = state.snapshot;
  $("snapshot").value = i;
  $("snapshot-number").textContent = snapshotName(i);
  $("play").textContent = t(playing === null ? "training.play" : "training.pause");
  drawLoss();
  await awakePupils();
  fillPrompts();
  const found = await questionPupil(i);
  if (i !== state.snapshot || state.section !== "training") {
    return;
  }
  found.prompts.forEach((/** @type {any} */ { best, error }, /** @type {any} */ row) => {
    const cell = $("prompts").rows[row].cells[1];
    cell.replaceChildren(
      ...(error
        ? [error]
        : best
            .slice(0, 3)
            .flatMap((/** @type {any[]} */ [word, share]) => [
              element("b", word),
              ` ${share.toFixed(2)}  `,
            ])),
    );
  });
  Object.assign(answers, found);
  drawForming();
  await drawWords(i);
}
