// One head with all its values: what happens to one token in one layer, step by step. Each value
// comes with the Python that prints it.

const FILES = { attention: "minibert/attention.py", layer: "minibert/encoder.py" };
const headSize = () => sizes.hidden / sizes.heads;
/** Returns the layer, head, token and key that are shown: those of the open part, if there is one. */
const viewed = () =>
  state.part < 0 ? state : { ...stage, token: state.token, layer: RIVER_PARTS[state.part].layer };
const inLayer = (name) => `layer.${viewed().layer}.${name}`;

/**
 * A row of a step: its label, its values, and the Python expression of the value in column c.
 *
 * Rows that are added together share a `scale`, so that their colors are comparable. Every other
 * row has its own scale.
 */
const plain = (label, name, ...place) => ({
  label,
  name,
  value: (c) => numbers(name).at(...place, c),
  python: (c) => `t['${name}'][${[0, ...place, c].join(", ")}]`,
});

/** Returns the value vector of token k, weighted by the attention of the chosen token. */
function weightedValue(k) {
  const { head, token } = viewed();
  const [shares, value] = ["probabilities", "value"].map((name) => inLayer(`attention.${name}`));
  return {
    label: `p × v “${piece(k)}”`,
    scale: "context",
    value: (c) => numbers(shares).at(head, token, k) * numbers(value).at(head, k, c),
    python: (c) =>
      `t['${shares}'][0, ${head}, ${token}, ${k}] * t['${value}'][0, ${head}, ${k}, ${c}]`,
  };
}

/** Returns the output of the chosen head for the chosen token. */
function headOutput() {
  const { head, token } = viewed();
  const context = inLayer("attention.context");
  const first = head * headSize();
  return {
    label: t("head.sum"),
    scale: "context",
    value: (c) => numbers(context).at(token, first + c),
    python: (c) => `t['${context}'][0, ${token}, ${first + c}]`,
  };
}

/** The steps: the file that computes each one, its width, and its rows for the current choice. */
const HEAD_STEPS = [
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
          value: (c) => numbers(q).at(head, token, c) * numbers(k).at(head, key, c),
          python: (c) =>
            `t['${q}'][0, ${head}, ${token}, ${c}] * t['${k}'][0, ${head}, ${key}, ${c}]`,
        },
      ];
    },
  },
  {
    id: "scores",
    file: FILES.attention,
    cols: () => count,
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
      const cell = (name) => (c) => `t['${name}'][0, ${head}, ${token}, ${c}]`;
      return [
        {
          label: "q · k",
          value: (c) => numbers(scores).at(head, token, c) * Math.sqrt(headSize()),
          python: (c) => `t['${q}'][0, ${head}, ${token}] @ t['${k}'][0, ${head}, ${c}]`,
        },
        {
          label: `/ √${headSize()}`,
          value: (c) => numbers(scores).at(head, token, c),
          python: cell(scores),
        },
        {
          label: t("head.mask"),
          value: (c) => (mayLook(token, c) ? numbers(scores).at(head, token, c) : LOWEST_SCORE),
          python: cell(masked),
        },
        {
          label: t("attention.probabilities"),
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
        ...tokens.map((_, k) => weightedValue(k)),
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

let headCursor = {}; // the cursor of each step as [row, column]

function buildHead() {
  buildFilm();
  for (const step of HEAD_STEPS) {
    const canvas = element("canvas", "", { id: `head-${step.id}` });
    const box = element("div", "", { className: "scroll" });
    canvas.dataset.label = `head.${step.id}`;
    const file = element("code", step.file);
    const figure = element("figure", "", { className: "step" });
    const names = element("code", "", { id: `head-${step.id}-names` });
    const heading = element("h2");
    const formula = element("p", "", { className: "formula" });
    const where = element("p", "", { className: "say" });
    heading.dataset.t = `head.${step.id}`;
    formula.dataset.t = `head.${step.id}.formula`;
    where.append(names, element("span", " · "), file);
    box.append(canvas);
    figure.append(heading, formula, where, box);
    $("head-steps").append(figure);
    step.map = new HeatMap(canvas.id, () => headPlan(step));
  }
  const choose = (name) => (event) => change({ [name]: Number(event.target.value) });
  for (const [id, name] of [
    ["layer", "layer"],
    ["head", "head"],
    ["token", "token"],
    ["key", "key"],
  ]) {
    $(`head-${id}`).onchange = choose(name);
  }
  for (const [id, most] of [
    ["layer", sizes.layers],
    ["head", sizes.heads],
  ]) {
    $(`head-${id}`).replaceChildren(
      ...Array.from({ length: most }, (_, i) => element("option", i, { value: i })),
    );
  }
}

/** Returns the largest value of a row, except for the lowest number, which masks a token. */
const largestOf = (row) =>
  row.reduce(
    (most, value) => (Math.abs(value) < 1e30 ? Math.max(most, Math.abs(value)) : most),
    1e-9,
  );

/**
 * Returns the heat map of a step. Rows on the same scale share their colors, and short rows show
 * their values.
 */
function headPlan(step) {
  const rows = step.rows();
  const cols = step.cols();
  const [r, c] = headCursor[step.id] ?? [0, 0];
  const values = rows.map((row) => Array.from({ length: cols }, (_, c) => row.value(c)));
  const most = rows.map((row, r) => {
    const together = values.filter((_, other) => row.scale && rows[other].scale === row.scale);
    return Math.max(largestOf(values[r]), ...together.map(largestOf));
  });
  return {
    rows: rows.length,
    cols,
    palette: "diverging",
    space: 26 * rows.length + 24,
    tallest: 26,
    smallest: [cols <= 96 ? 66 : 8, 24],
    left: 150,
    top: 18,
    cursor: [clamp(r, 0, rows.length - 1), clamp(c, 0, cols - 1)],
    rowLabel: (r) => rows[r].label,
    colLabel: (c) => (step.perToken ? piece(c) : `${c}`),
    shade: (r, c) => (Math.abs(values[r][c]) > 1e30 ? null : 0.5 + values[r][c] / most[r] / 2),
    write: (r, c) => written(values[r][c], step.decimals),
    describe: (r, c) =>
      t(step.perToken ? "head.cell" : "vector.cell", {
        row: rows[r].label,
        index: c,
        token: step.perToken ? piece(c) : "",
        value: written(values[r][c], step.decimals),
      }),
    python: (r, c) =>
      rows[r].line?.(c) ??
      python(rows[r].python(c), { format: Math.abs(values[r][c]) > 1e30 ? ".1e" : ".4f" }),
    move: (r, c) => {
      headCursor[step.id] = [r, c];
      if (step.perToken && state.part >= 0) {
        stage.key = c;
      }
      change(step.perToken && state.part < 0 ? { key: c } : { part: state.part });
    },
  };
}

function buildHeadChoices() {
  for (const id of ["head-token", "head-key"]) {
    $(id).replaceChildren(
      ...tokens.map((token, i) => element("option", `${i} ${token.piece}`, { value: i })),
    );
  }
}

function drawHead() {
  const whole = Boolean(numbers(inLayer("attention.query")));
  $("head-say").textContent = t(whole ? "head.say" : "head.none");
  $("head-steps").hidden = $("film").hidden = !whole;
  for (const name of ["layer", "head", "token", "key"]) {
    $(`head-${name}`).value = state[name];
  }
  if (!whole) {
    return;
  }
  fitFilm();
  for (const step of HEAD_STEPS) {
    $(`head-${step.id}-names`).textContent = step.names.map(inLayer).join(", ");
    step.map.draw();
  }
}
