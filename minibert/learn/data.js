// What the page shows. `shown` holds the steps of one text. PyTorch computed them when the page was
// written (the photograph), or bert.js computes them in a worker after a change (live). Both use
// the names of minibert.trace.

/** The values of one step, without the batch axis. `text` formats a value as Python prints it. */
class Numbers {
  constructor({ shape, data }, decimals = null) {
    Object.assign(this, {
      shape,
      data,
      scale: decimals === null ? 1 : 10 ** decimals,
      decimals: decimals ?? 4,
    });
  }
  index(...at) {
    return at.reduce((flat, i, axis) => flat * this.shape[axis] + i, 0);
  }
  at(...at) {
    return this.data[this.index(...at)] / this.scale;
  }
  text(...at) {
    return written(this.at(...at), this.decimals);
  }
  /** Returns one row of the last axis. */
  row(...at) {
    const size = this.shape.at(-1);
    const from = this.index(...at, 0);
    return Array.from(this.data.subarray(from, from + size), (value) => value / this.scale);
  }
  /**
   * Returns the 99th percentile of the absolute values. Outliers would make all others look alike.
   */
  typical() {
    if (this.known === undefined) {
      const sizes = [];
      const step = Math.ceil(this.data.length / 20000);
      for (let i = 0; i < this.data.length; i += step) {
        sizes.push(Math.abs(this.data[i]));
      }
      this.known = sizes.sort((a, b) => a - b)[Math.floor(sizes.length * 0.99)] / this.scale || 1;
    }
    return this.known;
  }
}

const written = (value, decimals = 4) =>
  Math.abs(value) > 1e30 ? value.toExponential(1) : value.toFixed(decimals);

/**
 * Decodes the photograph. Its arrays follow each other, as multiples of 10^-decimals, or as floats
 * where decimals is null.
 */
async function develop({ table, data }) {
  const buffer = await inflate(data);
  const steps = new Map();
  let start = 0;
  for (const [name, shape, decimals, bits] of table) {
    const count = shape.reduce((a, b) => a * b, 1);
    const bytes = buffer.slice(start, (start += (count * bits) / 8));
    let Numbered = bits === 16 ? Int16Array : Int32Array;
    if (decimals === null) {
      Numbered = Float32Array;
    }
    const data = new Numbered(bytes);
    steps.set(name, new Numbers({ shape, data }, decimals));
  }
  return steps;
}

// ---------------------------------------------------------------- the live model

class Live {
  static async start(content) {
    const live = new Live();
    const vocabulary = new TextDecoder()
      .decode(await inflate(content.tokenizer.vocabulary))
      .split("\n");
    live.tokenizer = new WordPiece({ ...content.tokenizer, vocabulary });
    live.longest = Math.min(page.max_tokens, content.max_tokens);
    const source = URL.createObjectURL(
      new Blob([$("worker").textContent], { type: "text/javascript" }),
    );
    live.worker = new Worker(source);
    live.waiting = new Map();
    live.types = content.parameters.find(([name]) => name.includes("token_type"))[1][0];
    live.predicts = content.parameters.some(([name]) => name === "cls.predictions.bias");
    live.worker.onmessage = ({ data: { id, answer, error } }) => {
      const { resolve, reject } = live.waiting.get(id);
      live.waiting.delete(id);
      if (error) {
        reject(new Error(error));
      } else {
        resolve(answer);
      }
    };
    return live.with(content);
  }
  /** Returns another model in the same worker, with the same tokenizer. */
  with(content) {
    const other = Object.assign(Object.create(this), { model: (Live.made = (Live.made ?? 0) + 1) });
    other.ask("load", { ...content, tokenizer: null });
    return other;
  }
  ask(kind, input) {
    const id = (Live.asked = (Live.asked ?? 0) + 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, kind, input, model: this.model });
    });
  }
  /**
   * Returns the tokens of a request {text, pair, masked, padTo, type}. An invalid request throws an
   * error with a message for the reader.
   */
  tokens({ text, pair = null, masked = [], padTo = 0, type = null }) {
    const tokens = this.tokenizer
      .encode(text, pair, padTo)
      .map((token) => ({ ...token, segment: type ?? token.type }));
    const { special, ids } = this.tokenizer;
    if (tokens.length > this.longest) {
      throw new Error(t("text.long", { count: tokens.length, most: this.longest }));
    }
    for (const place of masked) {
      if (!tokens[place]) {
        throw new Error(
          `There is no token ${place} to mask: the text has ${tokens.length}, counted from 0.`,
        );
      }
      Object.assign(tokens[place], { id: ids.get(special.mask), piece: special.mask });
    }
    return tokens;
  }
  async compute(request) {
    const tokens = this.tokens(request);
    const { text, pair = null, off = [], sides = "both", from = 0, states = null } = request;
    const { idle = [], sharing = 1 } = request;
    const column = (name) => tokens.map((token) => token[name]);
    const found = await this.ask("run", {
      ids: column("id"),
      types: column("segment"),
      mask: column("mask"),
      sides,
      off,
      idle,
      sharing,
      from,
      states,
    });
    const steps = new Map(Array.from(found, ([name, step]) => [name, new Numbers(step)]));
    return {
      request,
      tokens,
      steps,
      texts: pair === null ? [text] : [text, pair],
      lens: [],
      live: true,
    };
  }
  /** Returns the steps of the MLM head for one state, and the best words with their logits. */
  async transform(states) {
    const { vocabulary } = this.tokenizer;
    const { steps, best } = await this.ask("transform", {
      states,
      k: page.top,
      count: vocabulary.length,
    });
    return { steps, best: best.map((word) => ({ ...word, word: vocabulary[word.id] })) };
  }
  /** Returns the best words for states (rows, hidden): [[word, probability], ...] for each row. */
  async words(states) {
    const { vocabulary } = this.tokenizer;
    const best = await this.ask("words", {
      states: { shape: states.shape, data: states.data },
      k: page.top,
      count: vocabulary.length,
    });
    return best && best.map((row) => row.map(([id, share]) => [vocabulary[id], share]));
  }
}

// ---------------------------------------------------------------- the current text

let live = null; // the model inside the page, if it has one
// The text that the page was written for. The live model computes it if the page holds no values.
let photograph;
let shown; // the current text
let numbers; // (name) => Numbers of a step of the current text
let tokens = [];
let count = 0;

/** Returns the piece of a token. The chosen one may still be computed, with a text just set. */
const piece = (i) => tokens[i]?.piece ?? "…";
const mayLook = (q, k) => Boolean(tokens[k].mask) && SIDES[shown.request.sides](q, k);
const stateName = (depth) => (depth ? `layer.${depth - 1}.output` : "embeddings.output");
const hiddenState = (depth, from = shown) => from.steps.get(stateName(depth));
const attention = (layer, name) => numbers(`layer.${layer}.attention.${name}`);

function show(what) {
  shown = what;
  tokens = shown.tokens;
  count = tokens.length;
  numbers = (name) => shown.steps.get(name);
}

/** Returns what the model has to compute for a state of the page. */
const requestOf = ({ text, pair, masked, off, pad, sides, type }) => ({
  text,
  pair,
  masked,
  off,
  padTo: pad || (page.pad_to ?? 0),
  sides,
  type,
});
const requested = () => requestOf(state);
// Altered models are compared with the whole model.
const isAltered = ({ off, type }) => off.length > 0 || type !== null;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

let running = false;
// One computation runs at a time. Changes in the meantime are computed once, afterwards.
let late = false;
async function refresh() {
  if (running) {
    late = true;
    return;
  }
  running = true;
  try {
    do {
      late = false;
      await computeShown(requested());
    } while (late);
  } finally {
    running = false; // also if drawing fails
  }
}

/** Computes a request, and draws the page unless another one has come in the meantime. */
async function computeShown(request) {
  try {
    const known = [shown, photograph].find((what) => same(request, what.request));
    const next = known ?? (await live.compute(request));
    if (isAltered(request)) {
      next.whole ??= await live.compute({ ...request, off: [], type: null });
    }
    if (!late) {
      show(next);
      state.trouble = "";
    }
  } catch (error) {
    state.trouble = error.message;
  }
  if (!late) {
    rebuild();
  }
}

/**
 * Fetches the predictions of the open section, from the last layer down, and draws each as it
 * arrives.
 */
async function fetchLens(own = shown) {
  const wanted = () => own === shown || own === shown.whole;
  if (!own.live || own.fetching || own.lens === null) {
    return;
  }
  own.fetching = true;
  for (let depth = sizes.layers; depth >= 0 && wanted(); depth--) {
    const words = await live.words(hiddenState(depth, own));
    if (words === null) {
      own.lens = null;
    } else {
      own.lens[depth] = words;
    }
    if (words === null) {
      break;
    }
    if (wanted() && state.section === "predictions") {
      draw();
    }
  }
  own.fetching = false;
}

const nested = (step, ...at) =>
  at.length === step.shape.length - 1
    ? step.row(...at)
    : Array.from({ length: step.shape[at.length] }, (_, i) => nested(step, ...at, i));

/**
 * Runs the model from the console or a test:
 * `await minibert.run("I love Korea", {pair, masked: [2], off: [[0, 1]]})`.
 */
async function run(text, { pair = null, masked = [], off = [], sides = "both" } = {}) {
  if (!live) {
    throw new Error(
      "This page is a photograph: its model is too large to be put into it, so it cannot compute.",
    );
  }
  const { tokens, steps } = await live.compute({ text, pair, masked, off, sides });
  const hidden = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
    steps.get(stateName(depth)),
  );
  return {
    tokens: tokens.map((token) => token.piece),
    ids: tokens.map((token) => token.id),
    hidden_states: hidden.map((step) => nested(step)),
    attentions: hidden
      .slice(1)
      .map((_, layer) => nested(steps.get(`layer.${layer}.attention.probabilities`))),
    predictions: await live.words(hidden.at(-1)),
  };
}

// ---------------------------------------------------------------- as Python

const literal = (value) => (value === null ? "None" : JSON.stringify(value));

/** Returns the Python call that computes what is shown. */
function pythonRun(request = shown.request, fromLive = shown.live) {
  const options = [];
  if (request.pair !== null) {
    options.push(`pair=${literal(request.pair)}`);
  }
  if (request.masked.length) {
    options.push(`masked=${literal(request.masked)}`);
  }
  if (request.off.length) {
    options.push(`off=${literal(request.off)}`);
  }
  const bare = live ? live.tokenizer.encode(request.text, request.pair).length : 0;
  if (request.padTo && request.padTo >= bare) {
    options.push(`pad_to=${request.padTo}`);
  }
  if (request.type !== null && request.type !== undefined) {
    options.push(`token_type=${request.type}`);
  }
  if (request.sides && request.sides !== "both") {
    options.push(`sides=${literal(request.sides)}`);
  }
  // The page's weights have 8 bits.
  if (fromLive) {
    options.push("rounded=True");
  }
  return `run(${[literal(page.source), literal(request.text), ...options].join(", ")})`;
}

/** Returns a line of Python that prints a value. The expression reads the trace `t`. */
function python(expression, { names = "run", format = ".4f", torch = false, before = "" } = {}) {
  const imports = `${torch ? "import torch; " : ""}from minibert.study import ${names};`;
  return `${imports} t = ${pythonRun()}; ${before}print(f"{${expression}:${format}}")`;
}

/** Returns a cell of a step in Python. Traces have a batch axis. */
const stepCell = (name, ...at) => `t['${name}'][${[0, ...at].join(", ")}]`;
const stepPython = (name, ...at) => python(stepCell(name, ...at));
