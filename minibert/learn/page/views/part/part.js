// One part of the strip, opened in place: its matrices of weights, and every vector that enters or
// leaves them for the chosen token. The weights come from the worker, and each number has the line
// of Python that prints it. Opening a part changes nothing that a scene asks about.

import { Numbers, written } from "../../model/numbers.js";
import { clamp, range } from "../../model/ranges.js";
import { PRINT, fitted, picture, setSize } from "../../parts/canvas.js";
import { color } from "../../parts/colors.js";
import { $, element } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { literal, pythonRun } from "../../parts/python.js";
import { change } from "../../state/change.js";
import { current, hiddenState, numbers, piece, show, stateName } from "../../state/current.js";
import { page, root, sizes } from "../../state/page.js";
import { draw, state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { HEAD_STEPS, headSize, plain } from "../head/rows.js";
import { headPlan, largestOf } from "../head/steps.js";
import { stage, viewed } from "./opened.js";
import { RIVER_PARTS } from "../strip/model-parts.js";

const RESULT = 84; // pixels beside a matrix for its results

const INPUT = 40; // pixels above a matrix for its input

/**
 * Returns some rows of a parameter as Numbers, or null until the worker has sent them.
 * @param {string} name
 * @param {any[]} rows
 */
export function weightRows(name, rows) {
  const key = `${name} ${rows}`;
  if (!stage.rows.has(key)) {
    stage.rows.set(key, null);
    current.live.ask("rows", { name, rows }).then((found) => {
      stage.rows.set(key, found && new Numbers(found));
      drawPart();
    });
  }
  return stage.rows.get(key);
}

/**
 * Returns a line of Python that prints expressions of the trace `t` and the parameter `w`.
 * @param {string} name
 * @param {...any} expressions
 */
function weightPython(name, ...expressions) {
  const full = current.live.predicts && !name.startsWith("cls.") ? `bert.${name}` : name;
  const printed = expressions.map((expression) => `{${expression}:.4f}`).join(" ");
  return (
    "from minibert.learn.build import load_page_model; from minibert.study import rounded, run; " +
    `model = rounded(load_page_model(${literal(page.source)})[0]); ` +
    `w = model.get_parameter('${full}'); t = ${pythonRun()}; print(f"${printed}")`
  );
}

/**
 * Returns a product with a matrix of weights.
 * @param {Row} input, output: vectors, where output(c) is the result in row c of the matrix.
 * @param {string} name: the official name of the layer.
 * @param {any[]} rows: the rows of the matrix that are shown.
 * @param {string} weight
 * @param {Row} output
 */
export const product = (weight, name, rows, input, output) => ({
  kind: "product",
  formula: output.label.includes(weight)
    ? `${input.label} · ${output.label}` // the result has no letter of its own
    : `${output.label} = ${input.label} · ${weight} + b`,
  weight,
  name,
  rows,
  input,
  output,
});

/**
 * Returns a LayerNorm: its input, the input normalized, the learned scale and shift, its output.
 * @param {string} name
 * @param {Row} input
 * @param {Row} output
 */
function norm(name, input, output) {
  const epsilon = page.live.config.layer_norm_eps;
  const [scale, shift] = ["weight", "bias"].map((kind) =>
    weightRows(`${name}.${kind}`, range(0, sizes.hidden)),
  );
  const values = range(0, sizes.hidden).map(input.value);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = Math.sqrt(
    values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length + epsilon,
  );
  const whole = input.python(":");
  /**
   * @param {string} label
   * @param {any} numbers
   * @param {string} kind
   */
  const learned = (label, numbers, kind) => ({
    label,
    /** @param {number} c */
    value: (c) => numbers?.at(c) ?? 0,
    /** @param {number} c */
    line: (c) => weightPython(`${name}.${kind}`, `w[${c}]`),
  });
  return {
    kind: "rows",
    formula: `${output.label} = (x − mean(x)) / σ(x) · γ + β`,
    cols: () => sizes.hidden,
    rows: () => [
      { ...input, label: "x" },
      {
        label: "(x − mean) / σ",
        /** @param {number} c */
        value: (c) => (values[c] - mean) / spread,
        /** @param {number} c */
        python: (c) =>
          `((${whole} - ${whole}.mean()) / (${whole}.var(correction=0) + ${epsilon}).sqrt())` +
          `[${c}]`,
      },
      learned("γ", scale, "weight"),
      learned("β", shift, "bias"),
      output,
    ],
  };
}

/** @param {string} id */
const stepOf = (id) => ({ kind: "rows", ...HEAD_STEPS.find((step) => step.id === id) });

/**
 * Returns the figures of an attention head, from the states to what is added to them.
 * @param {number} layer
 */
function attentionFigures(layer) {
  const { head, token, key } = viewed();
  /** @param {string} name */
  const own = (name) => `layer.${layer}.attention.${name}`;
  const rows = range(head * headSize(), headSize());
  /**
   * @param {string} letter
   * @param {string} name
   * @param {number} place
   */
  const made = (letter, name, place) =>
    product(
      `W_${letter.toUpperCase()}`,
      `encoder.layer.${layer}.attention.self.${name}`,
      rows,
      plain(`h${layer} “${piece(place)}”`, stateName(layer), place),
      plain(`${letter} “${piece(place)}”`, own(name), head, place),
    );
  return [
    made("q", "query", token),
    made("k", "key", key),
    stepOf("qk"),
    stepOf("scores"),
    made("v", "value", key),
    stepOf("values"),
    product(
      "W_O",
      `encoder.layer.${layer}.attention.output.dense`,
      range(0, sizes.hidden),
      plain("context", own("context"), token),
      plain("W_O + b", own("projected"), token),
    ),
  ];
}

/**
 * Returns the figures of the feed-forward network.
 * @param {number} layer
 */
function networkFigures(layer) {
  const { token } = viewed();
  /**
   * @param {string} label
   * @param {string} name
   */
  const own = (label, name) => plain(label, `layer.${layer}.${name}`, token);
  return [
    product(
      "W₁",
      `encoder.layer.${layer}.intermediate.dense`,
      range(0, sizes.intermediate),
      own("a", "attention.output"),
      own("W₁ + b₁", "widened"),
    ),
    stepOf("widen"),
    product(
      "W₂",
      `encoder.layer.${layer}.output.dense`,
      range(0, sizes.hidden),
      own("m", "intermediate"),
      own("W₂ + b₂", "narrowed"),
    ),
  ];
}

/** Returns the figures of the embeddings: three rows of three tables, their sum, normalized. */
function embeddingFigures() {
  const { token } = viewed();
  const { id, segment } = current.tokens[token];
  /**
   * @param {string} label
   * @param {string} name
   */
  const own = (label, name) => plain(label, `embeddings.${name}`, token);
  return [
    {
      kind: "rows",
      formula: `x = E[${id}] + S[${segment}] + P[${token}]`,
      cols: () => sizes.hidden,
      rows: () =>
        [
          own(`E “${piece(token)}”`, "word"),
          own("S", "token_type"),
          own("P", "position"),
          own("x", "sum"),
        ].map((row) => ({ ...row, scale: "sum" })),
    },
    norm("embeddings.LayerNorm", own("x", "sum"), own("h0", "normalized")),
  ];
}

/** Returns the figures of the pooler, and of the head that judges whether two texts follow. */
function poolerFigures() {
  /**
   * @param {string} label
   * @param {string} name
   */
  const own = (label, name) => plain(label, `pooler.${name}`);
  if (!numbers("pooler.dense")) {
    return [];
  }
  const figures = [
    product(
      "W_P",
      "pooler.dense",
      range(0, sizes.hidden),
      own("h [CLS]", "cls"),
      own("p", "dense"),
    ),
    {
      kind: "rows",
      formula: "tanh(p)",
      cols: () => sizes.hidden,
      rows: () => [own("p", "dense"), own("tanh(p)", "output")],
    },
  ];
  if (numbers("nsp.logits")) {
    figures.push(
      product(
        "W_NSP",
        "cls.seq_relationship",
        [0, 1],
        own("tanh(p)", "output"),
        plain("logits", "nsp.logits"),
      ),
    );
  }
  return figures;
}

/** The table that holds a row for each word: the decoder's own, or that of the embeddings. */
const wordTable = () =>
  page.live.parameters.some(
    (/** @type {any[]} */ [name]) => name === "cls.predictions.decoder.weight",
  )
    ? "cls.predictions.decoder"
    : "embeddings.word_embeddings";

/** Returns the figures of the head that predicts words. Its last matrix has a row for each word. */
function predictionFigures() {
  const { token } = viewed();
  const found = current.live.predicts && transformed(token);
  if (!found) {
    return [];
  }
  const transform = "cls.predictions.transform";
  const module = `model.${transform}`;
  const state = `t['${stateName(sizes.layers)}'][0, ${token}]`;
  /**
   * @param {string} label
   * @param {string} name
   * @param {any} expression
   */
  const row = (label, name, expression) => ({
    label,
    /** @param {number} c */
    value: (c) => found.steps[name].data[c],
    /** @param {number} c */
    python: (c) => `${expression}[${c}]`,
    /** @param {number} c */
    line: (c) => weightPython(`${transform}.dense.weight`, `${expression}[${c}]`),
  });
  const dense = row("d", "dense", `${module}.dense(${state})`);
  const bent = row(
    page.activation,
    "bent",
    `${module}.transform_act_fn(${module}.dense(${state}))`,
  );
  const output = row("t", "transformed", `${module}(${state})`);
  const last = plain(`h${sizes.layers} “${piece(token)}”`, stateName(sizes.layers), token);
  return [
    product("W_T", `${transform}.dense`, range(0, sizes.hidden), last, dense),
    {
      kind: "rows",
      formula: `t = LayerNorm(${page.activation}(d))`,
      cols: () => sizes.hidden,
      rows: () => [dense, bent, output],
    },
    {
      ...product(
        "E",
        wordTable(),
        found.best.map((/** @type {any} */ { id }) => id),
        output,
        {
          label: t("part.logits"),
          /** @param {number} r */
          value: (r) => found.best[r].logit,
          /** @param {number} r */
          python: (r) => `t['mlm.logits'][0, ${token}, ${found.best[r].id}]`,
        },
      ),
      names: found.best.map((/** @type {any} */ { word }) => word),
      bias: "cls.predictions.bias",
    },
  ];
}

/**
 * Returns the steps and the best words of the prediction head, or null until they are computed.
 * @param {any} token
 */
function transformed(token) {
  const own = current.shown;
  own.transformed ??= new Map();
  if (!own.transformed.has(token)) {
    own.transformed.set(token, null);
    const data = Float32Array.from(hiddenState(sizes.layers).row(token));
    current.live.transform({ shape: [1, sizes.hidden], data }).then((found) => {
      own.transformed.set(token, found);
      drawPart();
    });
  }
  return own.transformed.get(token);
}

/** @type {Record<string, any>} */
const PART_FIGURES = {
  pieces: () => [
    {
      kind: "rows",
      formula: t("text"),
      perToken: true,
      decimals: 0,
      cols: () => current.count,
      rows: () => [
        {
          label: "id",
          /** @param {number} c */
          value: (c) => current.tokens[c].id,
          /** @param {number} c */
          line: (c) =>
            `from minibert import BertTokenizer; print(BertTokenizer.from_pretrained(${literal(page.source)})` +
            `.convert_tokens_to_ids(${literal(piece(c))}))`,
        },
      ],
    },
  ],
  embeddings: embeddingFigures,
  attention: attentionFigures,
  /** @param {number} layer */
  add: (layer) => [
    stepOf("mix"),
    norm(
      `encoder.layer.${layer}.attention.output.LayerNorm`,
      plain("x", `layer.${layer}.attention.sum`, viewed().token),
      plain("a", `layer.${layer}.attention.output`, viewed().token),
    ),
  ],
  ff: networkFigures,
  /** @param {number} layer */
  add2: (layer) => [
    stepOf("narrow"),
    norm(
      `encoder.layer.${layer}.output.LayerNorm`,
      plain("x", `layer.${layer}.sum`, viewed().token),
      plain(`h${layer + 1}`, `layer.${layer}.output`, viewed().token),
    ),
  ],
  pooler: poolerFigures,
  predictions: predictionFigures,
};

/**
 * Returns the heat map of a product: the matrix, its input above it, its results beside it.
 * @param {any} figure
 */
function productPlan(figure) {
  const { weight, name, rows, input, output, names, bias = `${name}.bias` } = figure;
  const matrix = weightRows(`${name}.weight`, rows);
  const shift = weightRows(bias, rows);
  const cols = weight === "W₂" ? sizes.intermediate : sizes.hidden;
  const most = matrix?.typical() ?? 1;
  const [ins, outs] = [
    [input, cols],
    [output, rows.length],
  ].map(([{ value }, count]) => range(0, count).map(value));
  const cursor = stage.cursors[name] ?? [0, 0];
  const [r, c] = [Math.min(cursor[0], rows.length - 1), Math.min(cursor[1], cols - 1)];
  const isNarrow = $("part").clientWidth < 560;
  const tallest = rows.length > 64 ? 1.5 : 9;
  return {
    rows: rows.length,
    cols,
    palette: "diverging",
    space: 1000,
    tallest: rows.length > 300 ? 0.4 : tallest,
    smallest: [0.2, rows.length < 9 ? 20 : 0.4],
    left: isNarrow ? 76 : 130,
    right: RESULT,
    top: INPUT,
    cursor: [r, c],
    marked: r,
    /** @param {number} r */
    rowLabel: (r) => names?.[r] ?? `${weight} ${rows[r]}`,
    /** @param {number} c */
    colLabel: (c) => `${c}`,
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => (matrix ? 0.5 + matrix.at(r, c) / most / 2 : null),
    /**
     * @param {CanvasRenderingContext2D} context
     * @param {Area} area
     * @param {number[]} cell
     */
    over: (context, area, cell) =>
      drawProduct(context, area, cell, { input, output, ins, outs, r }),
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) =>
      t("part.cell", {
        weight,
        row: names?.[r] ?? rows[r],
        col: c,
        value: written(matrix?.at(r, c) ?? 0),
        input: input.label,
        factor: written(ins[c]),
        cols,
        bias: written(shift?.at(r) ?? 0),
        output: output.label,
        result: written(outs[r]),
      }),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) =>
      weightPython(`${name}.weight`, `w[${rows[r]}, ${c}]`, input.python(c), output.python(r)),
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => {
      stage.cursors[name] = [r, c];
      drawPart();
    },
  };
}

/**
 * Draws the input of a product above its matrix, and the results beside it.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, top: number, width: number, height: number}} of1
 * @param {number[]} cell
 * @param {{input: any, output: any, ins: number[], outs: number[], r: number}} of3
 */
function drawProduct(context, { left, top, width, height }, cell, { input, output, ins, outs, r }) {
  /**
   * @param {number[]} values
   * @param {...any} box
   */
  const strip = (values, ...box) => {
    const [most, wide] = [largestOf(values), box[2] > box[3]];
    /**
     * @param {number} i
     * @param {number} j
     */
    const shade = (i, j) => 0.5 + values[wide ? j : i] / most / 2;
    const [rows, cols] = wide ? [1, values.length] : [values.length, 1];
    const [x, y, across, down] = box;
    context.drawImage(picture(rows, cols, "diverging", shade), x, y, across, down);
  };
  context.imageSmoothingEnabled = false;
  strip(ins, left, 0, width, 16);
  if (outs.length > 1) {
    strip(outs, left + width + 8, top, 14, height);
  }
  setSize(context, PRINT);
  context.fillStyle = color("ink");
  context.textAlign = "right";
  fitted(context, input.label, left - 6, 9, left - 8);
  context.textAlign = "left";
  fitted(context, output.label, left + width + 8, top - 12, RESULT - 8);
  context.fillStyle = color("cursor");
  const y = clamp(top + (r + 0.5) * cell[1], top + 8, top + height - 6);
  fitted(context, outs[r].toFixed(2), left + width + 26, y, RESULT - 26);
}

/**
 * Opens a part in place, or closes it with -1.
 * @param {number} part
 * @param {Record<string, any>} [changes]
 */
export function openStage(part, changes = {}) {
  Object.assign(stage, { head: state.head, key: state.key });
  change({ ...changes, part });
  $("part").scrollTop = 0;
}

/** Lets the model of the page compute what PyTorch computed, so that products match its weights. */
async function computeHere() {
  if (stage.computing) {
    return;
  }
  stage.computing = true;
  current.photograph = await current.live.compute(current.photograph.request);
  stage.computing = false;
  if (!current.shown.live) {
    show(current.photograph);
    draw();
  }
}

export function buildStage() {
  $("part-close").onclick = () => {
    const index = state.part;
    openStage(-1);
    $(`river-${index}`).focus();
  };
  $("part-head").onchange = (/** @type {any} */ { target }) => {
    stage.head = Number(target.value);
    drawPart();
  };
  $("page").addEventListener("keydown", (/** @type {any} */ { key }) => {
    if (key === "Escape" && state.part >= 0) {
      $("part-close").click();
    }
  });
  $("part-head").replaceChildren(
    ...range(0, sizes.heads).map((i) => element("option", i, { value: i })),
  );
}

/**
 * Creates the canvases of the open part.
 * @param {any[]} figures
 */
function layPart(figures) {
  $("part-figures").replaceChildren(
    ...figures.map(({ formula, id }, i) => {
      const box = element("figure", "", { className: "step" });
      const scroll = element("div", "", { className: "scroll" });
      const caption = element("figcaption", formula ?? t(`head.${id}.formula`), {
        className: "formula",
      });
      scroll.append(element("canvas", "", { id: `part-${i}` }));
      box.append(caption, scroll);
      return box;
    }),
  );
  stage.maps = figures.map(
    (_, i) =>
      new HeatMap(`part-${i}`, () => {
        const figure = stage.figures[i];
        return figure.kind === "product"
          ? productPlan(figure)
          : headPlan({ id: `part-${i}`, ...figure });
      }),
  );
}

/** Draws the open part, if there is one, instead of the tab. */
export function drawPart() {
  const isOpen = state.part >= 0;
  root.toggleAttribute("data-part", isOpen);
  $("part").hidden = !isOpen;
  $("page").querySelector("main").hidden = isOpen;
  if (!isOpen) {
    stage.drawn = "";
    return;
  }
  if (!current.shown.live) {
    stage.figures = [];
    computeHere();
    return;
  }
  const { name, layer } = RIVER_PARTS[state.part];
  const code = page.code?.[name];
  $("part-title").textContent =
    layer === undefined ? t(`river.${name}`) : t("river.part", { layer, part: t(`river.${name}`) });
  $("part-code").textContent = code ? `${code[0]}:${code[1]}` : "";
  $("part-heads").hidden = name !== "attention";
  $("part-head").value = stage.head;
  stage.key = Math.min(stage.key, current.count - 1);
  stage.figures = PART_FIGURES[name](layer);
  const drawn = `${state.part}.${stage.figures.length}.${state.language}`;
  if (drawn !== stage.drawn) {
    layPart(stage.figures);
  } else {
    stage.figures.forEach((/** @type {any} */ { formula, id }, /** @type {number} */ i) => {
      $(`part-${i}`).closest("figure").firstChild.textContent = formula ?? t(`head.${id}.formula`);
    });
  }
  stage.drawn = drawn;
  stage.figures.forEach((/** @type {any} */ { formula, id }, /** @type {number} */ i) => {
    $(`part-${i}`).setAttribute(
      "aria-label",
      `${formula ?? t(`head.${id}.formula`)}. ${t("part.map")}`,
    );
    stage.maps[i].draw();
  });
}
