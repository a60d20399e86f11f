// Every action changes `state` and redraws the open section. The address stores the state.

const DRAW = {
  text: drawText,
  embeddings: drawEmbeddings,
  attention: drawAttention,
  head: drawHead,
  hidden: drawHidden,
  compare: drawCompare,
  pooler: drawPooler,
  predictions: drawPredictions,
  training: drawTraining,
};

function change(changes) {
  if (changes.section && changes.section !== state.section) {
    document.querySelector("main").scrollTop = 0;
  }
  // Another tab closes the part that lies over it.
  if (changes.section && !("part" in changes)) {
    state.part = -1;
  }
  // States are shown at the chosen layer.
  if ("layer" in changes) {
    state.depth = changes.layer + 1;
  }
  // Predictions are shown at the model's output.
  if (changes.section === "predictions") {
    state.depth = sizes.layers;
  }
  tell(""); // the old description belongs to another choice
  Object.assign(state, changes);
  draw();
  if (changes.section === "predictions") {
    hideOne();
  }
}

/** Like `change`, for inputs of the model. */
function ask(changes) {
  change(changes);
  if (live) {
    refresh();
  }
}

/**
 * Like `ask`, for typing. Text boxes update themselves, so the page is drawn only once, with the
 * results.
 */
function type(changes) {
  tell("");
  Object.assign(state, changes);
  refresh();
}

function draw() {
  drawStage();
  if (running && Math.max(state.token, state.key) >= count) {
    return; // The tokens are still being computed. The page is drawn when they are ready.
  }
  drawFrame();
  drawRiver();
  drawPart();
  if (state.part < 0) {
    DRAW[state.section]();
  }
  drawTour();
  drawLesson();
  drawAsk();
  remember();
}

/** Rebuilds everything that depends on the tokens. */
function rebuild() {
  const last = count - 1;
  Object.assign(state, { token: clamp(state.token, 0, last), key: clamp(state.key, 0, last) });
  buildTokens();
  draw();
}

// ---------------------------------------------------------------- the address

const NUMBERS = [
  "token",
  "key",
  "layer",
  "head",
  "step",
  "depth",
  "threshold",
  "row",
  "tour",
  "part",
  ...(page.lesson ? ["scene", "guess"] : []),
  ...(page.run ? ["snapshot"] : []),
];
const WORDS = [
  "ask",
  "section",
  "stage",
  "view",
  "compare",
  "unit",
  "rule",
  "language",
  "theme",
  "other",
  "same",
  "guesses",
  "explore",
];
const CHOICES = {
  section: SECTIONS,
  stage: ["scores", "masked", "probabilities", "rollout"],
  view: ["lines", "steps"],
  compare: ["moved", "kept"],
  unit: ["words", "sentences"],
  rule: ["previous", "next", "itself", "[CLS]", "[SEP]", "same"],
  language: ["en", "ko"],
  theme: ["", "light", "dark"],
  explore: ["", "yes"],
};

function remember() {
  if (!root.dataset.ready) {
    return;
  }
  const said = new URLSearchParams();
  for (const name of WORDS) {
    if (state[name]) {
      said.set(name, state[name]);
    }
  }
  for (const name of NUMBERS) {
    said.set(name, state[name]);
  }
  if (!state.special) {
    said.set("special", "no");
  }
  if (live) {
    said.set("text", state.text);
    if (state.pair !== null) {
      said.set("pair", state.pair);
    }
    if (state.masked.length) {
      said.set("masked", state.masked.join("."));
    }
    if (state.pad) {
      said.set("pad", state.pad);
    }
    if (state.type !== null) {
      said.set("type", state.type);
    }
    if (state.sides !== "both") {
      said.set("sides", state.sides);
    }
    if (state.off.length) {
      said.set("off", state.off.map((at) => at.join(".")).join("_"));
    }
  }
  clearTimeout(remember.later);
  remember.later = setTimeout(() => {
    if (remember.address !== undefined && remember.address !== location.hash) {
      return; // The reader has just edited the address, which is about to be read.
    }
    try {
      history.replaceState(null, "", `#${said}`);
      remember.address = location.hash;
    } catch {
      /* An iframe may not be allowed to change its address. */
    }
  }, 150);
}

/** Sets the state from the address, and returns it. Values that do not fit this page are ignored. */
function recall() {
  const said = throughDoor(new URLSearchParams(location.hash.slice(1)));
  const limits = {
    token: 127,
    key: 127,
    layer: sizes.layers - 1,
    head: sizes.heads - 1,
    step: FILM_STEPS.length - 1,
    depth: sizes.layers,
    threshold: 0.5,
    row: EMBEDDINGS.length - 1,
    tour: STOPS.length - 1,
    part: live ? RIVER_PARTS.length - 1 : -1,
    scene: SCENE_COUNT, // the end follows the last scene
    guess: 2,
    snapshot: (page.run?.snapshots.length ?? 1) - 1,
  };
  for (const name of WORDS) {
    const value = said.get(name);
    if (value !== null && (CHOICES[name]?.includes(value) ?? true)) {
      state[name] = value;
    }
  }
  for (const name of NUMBERS) {
    const value = Number(said.get(name) ?? NaN);
    if (Number.isFinite(value)) {
      state[name] = clamp(
        name === "threshold" ? value : Math.round(value),
        ["tour", "guess", "part"].includes(name) ? -1 : 0,
        limits[name],
      );
    }
  }
  state.ask = said.get("ask") ?? "";
  state.special = said.get("special") !== "no";
  if (live && said.has("text")) {
    const whole = (text) => text.match(/\d+/g)?.map(Number) ?? [];
    state.text = said.get("text");
    state.pair = said.get("pair");
    state.masked = whole(said.get("masked") ?? "");
    state.pad = clamp(Math.round(Number(said.get("pad")) || 0), 0, live.longest);
    state.type = said.get("type") === "1" && live.types > 1 ? 1 : null;
    state.sides = Object.hasOwn(SIDES, said.get("sides")) ? said.get("sides") : "both";
    const inside = ([layer, head = 0]) =>
      layer >= 0 && layer < sizes.layers && head >= 0 && head < sizes.heads;
    state.off = (said.get("off") ?? "")
      .split("_")
      .map(whole)
      .filter((at) => at.length && at.length < 3 && inside(at));
  }
  return said;
}

// ---------------------------------------------------------------- start

function showTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = state.theme || system;
  readPalettes();
  grid = null;
}

async function start() {
  const request = requested();
  photograph = { ...page, request, steps: await develop(page.arrays), live: false };
  if (page.live) {
    try {
      live = await Live.start(page.live);
      await readEntries();
    } catch (error) {
      state.trouble = error.message;
    }
  }
  if (live && !page.complete) {
    photograph = await live.compute(request);
  }
  show(photograph);
  root.classList.toggle("live", Boolean(live));
  const { layer, head, token, key } = interestingHead();
  const masked = tokens.findIndex((token) => token.piece === "[MASK]");
  Object.assign(state, { layer, head, depth: layer + 1, token: masked >= 0 ? masked : token, key });
  const said = recall();
  const known = said.has("section");
  remember.address = location.hash;
  showTheme();
  for (const build of [
    buildFrame,
    buildRiver,
    buildStage,
    buildText,
    buildAttention,
    buildHead,
    buildHidden,
    buildCompare,
    buildTraining,
    buildTour,
    buildLesson,
    buildAsk,
  ]) {
    build();
  }
  if (page.lesson && !known) {
    await enter(state.scene);
  } else if (live && known && !same(requested(), request)) {
    await refresh();
  } else {
    rebuild();
  }
  if (live && state.other) {
    await compareTexts();
  }
  if (state.tour >= 0) {
    goTo(state.tour);
  }
  root.dataset.ready = "yes";
  window.onhashchange = async () => {
    // The reader edited the address. The page's own updates trigger no event.
    remember.address = location.hash;
    const said = recall();
    showTheme();
    if (page.lesson && said.has("scene") && !said.has("section")) {
      await enter(state.scene); // as by its number
      return;
    }
    fillEdits();
    fillCompared();
    if (live) {
      await refresh();
    } else {
      rebuild();
    }
  };
}

window.minibert = { run };
start();
