// The scene on a layer whole: what it adds to a vector, and what is lost where it is skipped.

const OPENING = "He opened the [MASK] and went in.";
const MIDDLE = Math.floor(sizes.layers / 2);

/** How many layers, each skipped alone, leave the best word for [MASK] as it is. */
async function sparedLayers(request, word) {
  let spared = 0;
  for (let layer = 0; layer < sizes.layers; layer++) {
    const [best] = await answersOf(await live.compute({ ...request, off: [[layer]] }));
    spared += Number(best?.[0] === word);
  }
  return spared;
}

/** How long what a layer adds is beside the vector that it adds it to. */
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
  set: () => ({
    section: "head",
    text: OPENING,
    layer: MIDDLE,
    head: 0,
    token: placeIn(OPENING, "[MASK]"),
  }),
  then: () => {
    const main = document.querySelector("main"); // to where the heads are mixed and added
    river.opened = partIndex("add", MIDDLE);
    main.scrollTop = $("head-mix").closest("figure").offsetTop - main.offsetTop;
    return {};
  },
  act: () => ({ off: [[MIDDLE]] }),
  measure: async (before, now) => {
    const layer = now.request.off.find((at) => at.length === 1)?.[0] ?? state.layer;
    const token = (what) => what.tokens.findIndex((own) => own.piece === "[MASK]");
    const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
    const word = a[0][0];
    before.spared ??= sparedLayers(before.request, word);
    const spared = await before.spared;
    const places = [before, now].map((what) => Math.max(token(what), 0));
    const added = [before, now].map((what, i) => addedBy(what, layer, places[i]));
    const kept = [before, now].map((what, i) =>
      written(
        cosine(
          hiddenState(layer, what).row(places[i]),
          hiddenState(layer + 1, what).row(places[i]),
        ),
      ),
    );
    const percents = (part) => added.map((own) => `${Math.round(100 * own[part])}%`);
    const best = b[0]?.[0] ?? "–";
    const moved = best === word && Math.abs(a[0][1] - b[0][1]) > 0.0005;
    return {
      rows: [
        ["answer", saidWords(a), saidWords(b)],
        ["attention", ...percents(0)],
        ["ff", ...percents(1)],
        ["cosine", ...kept],
      ],
      outcome: choiceOf(best !== word, moved),
      values: { layer, word, best, spared, layers: sizes.layers },
    };
  },
};
