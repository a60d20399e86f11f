// The scene on a whole layer: what it adds to a vector, and what is lost if it is skipped.

const MIDDLE = Math.floor(sizes.layers / 2);

/**
 * Returns for each layer whether the best word for [MASK] stays the same if only that layer is
 * skipped.
 */
async function sparingLayers(request, word) {
  const spared = [];
  for (let layer = 0; layer < sizes.layers; layer++) {
    const [best] = await answersOf(await live.compute({ ...request, off: [[layer]] }));
    spared.push(best?.[0] === word);
  }
  return spared;
}

/** Returns the cosine between the input and the output of a layer for one token. */
const cosineThrough = (layer, what, place) =>
  cosine(hiddenState(layer, what).row(place), hiddenState(layer + 1, what).row(place));

/**
 * Effect of each layer in the article's other sentences: whether the answer survives skipping it,
 * and the cosine between its input and output.
 */
const skipping = new Experiment(
  () => example("layer").many ?? [],
  async (text) => {
    const what = await live.compute({ text });
    const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
    const [[word]] = await answersOf(what);
    const layers = [...Array(sizes.layers).keys()];
    return {
      spared: await sparingLayers({ text }, word),
      turn: layers.map((layer) => cosineThrough(layer, what, place)),
    };
  },
);

/** Measures the other sentences while the scene is open. */
function skipInMany() {
  skipping.run(() => SCENES[state.scene]?.id === "layer", 5);
}

/** Returns the rows and values of the other sentences, if the article has any. */
function skippedInMany(layer) {
  const { results } = skipping;
  if (results.length === 0) {
    return { rows: [], values: {} };
  }
  const layers = [...Array(sizes.layers).keys()];
  const kept = layers.map((own) => results.filter(({ spared }) => spared[own]).length);
  const turn = layers.map((own) => average(results.map((result) => result.turn[own])));
  const [least, most] = [Math.min, Math.max].map((choose) => kept.indexOf(choose(...kept)));
  const each = (values) => values.map((value, own) => `${own}:\u00a0${value}`).join(", ");
  return {
    rows: [
      ["kept", "", each(kept)],
      ["turn", "", each(turn.map((value) => value.toFixed(2)))],
    ],
    values: {
      kept: kept[layer],
      all: results.length,
      least,
      most,
      few: kept[least],
      lots: kept[most],
      turning: turn.indexOf(Math.min(...turn)),
    },
  };
}

/**
 * Returns the length of what attention and feed-forward add, relative to the vector they add it to.
 */
function addedBy(what, layer, token) {
  const long = (name) => lengthOf(what.steps.get(`layer.${layer}.${name}`).row(token));
  const skipped = what.request.off.some((at) => at.length === 1 && at[0] === layer);
  if (skipped) {
    return [0, 0];
  }
  const before = lengthOf(hiddenState(layer, what).row(token));
  return [long("attention.projected") / before, long("narrowed") / long("attention.output")];
}

const LAYER_SCENE = {
  id: "layer",
  set: () => {
    const { text } = example("layer");
    return { section: "head", text, layer: MIDDLE, head: 0, token: placeIn(text, "[MASK]") };
  },
  then: () => {
    const main = document.querySelector("main"); // scrolled to where the heads are mixed and added
    skipInMany(); // runs while the reader reads
    river.opened = partIndex("add", MIDDLE);
    main.scrollTop = $("head-mix").closest("figure").offsetTop - main.offsetTop;
    return {};
  },
  act: () => ({ off: [[MIDDLE]] }),
  progress: () => progressOf(skipping),
  measure: async (before, now) => {
    skipInMany();
    if (isAwaited(skipping)) {
      return null;
    }
    const layer = now.request.off.find((at) => at.length === 1)?.[0] ?? state.layer;
    const token = (what) => what.tokens.findIndex((own) => own.piece === "[MASK]");
    const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
    const word = a[0][0];
    before.spared ??= sparingLayers(before.request, word);
    const spared = (await before.spared).filter(Boolean).length;
    const many = skippedInMany(layer);
    const places = [before, now].map((what) => Math.max(token(what), 0));
    const added = [before, now].map((what, i) => addedBy(what, layer, places[i]));
    const kept = [before, now].map((what, i) => written(cosineThrough(layer, what, places[i])));
    const percents = (part) => added.map((own) => `${Math.round(100 * own[part])}%`);
    const best = b[0]?.[0] ?? "–";
    const moved = best === word && Math.abs(a[0][1] - b[0][1]) > 0.0005;
    return {
      rows: [
        ["answer", saidWords(a), saidWords(b)],
        ["attention", ...percents(0)],
        ["ff", ...percents(1)],
        ["cosine", ...kept],
        ...many.rows,
      ],
      open: !skipping.complete,
      outcome: choiceOf(best !== word, moved),
      values: { layer, word, best, spared, layers: sizes.layers, ...many.values },
    };
  },
};
