// Three scenes on reasons: why there are several heads, what the feed-forward network does, and how
// one step of training moves a weight.

/** The article's prompts with one [MASK], from the scene on a layer. */
const prompts = () => example("layer").many ?? [];

/** Returns whether the best word of each altered request is that of the whole model. */
async function keptAnswers(text, alterations) {
  const [[word]] = await answersOf(await live.compute({ text }));
  const kept = [];
  for (const alteration of alterations) {
    const [best] = await answersOf(await live.compute({ text, ...alteration }));
    kept.push(best[0] === word);
  }
  return kept;
}

const layerNumbers = () => [...Array(sizes.layers).keys()];
const groups = () => [2, sizes.heads / 2, sizes.heads];

/** Whether an answer survives if heads share one set of weights: pairs, halves, and all. */
const shared = new Experiment("shared", prompts, (text) =>
  keptAnswers(
    text,
    groups().map((sharing) => ({ sharing })),
  ),
);

/** Whether an answer survives without the feed-forward network of one layer, and without all. */
const idling = new Experiment("idling", prompts, (text) =>
  keptAnswers(text, [
    ...layerNumbers().map((layer) => ({ idle: [layer] })),
    { idle: layerNumbers() },
  ]),
);

/** Whether an answer survives without all heads of one layer. */
const unheard = new Experiment("unheard", prompts, (text) =>
  keptAnswers(
    text,
    layerNumbers().map((layer) => ({
      off: [...Array(sizes.heads).keys()].map((head) => [layer, head]),
    })),
  ),
);

/** Returns how many results have a true entry at an index, as a share. */
const survivors = ({ results }, index) =>
  shareOf(results.filter((own) => own[index]).length, results.length);

const exampleOfWhys = () => {
  const { text } = example("layer");
  return { text, token: placeIn(text, "[MASK]") };
};

const SEVERAL_SCENE = {
  id: "several",
  set: () => ({ section: "attention", ...exampleOfWhys() }),
  act: () => ({}),
  experiments: () => [shared],
  measure: () => {
    const [pairs, halves, all] = groups().map((_, i) => survivors(shared, i));
    const count = (index) => shared.results.filter((own) => own[index]).length;
    const half = shared.results.length / 2;
    return {
      rows: [
        ["separate", "", `${shared.results.length} / ${shared.results.length}`],
        ["pairs", "", pairs],
        ["halves", "", halves],
        ["all", "", all],
      ],
      outcome: choiceOf(count(2) > 1.5 * half, count(2) > half / 2),
      values: { pairs, halves, all },
    };
  },
};

const TRANSFORM_SCENE = {
  id: "transform",
  set: () => ({ section: "head", layer: MIDDLE, ...exampleOfWhys() }),
  then: () => goToPart("ff", MIDDLE),
  act: () => ({}),
  experiments: () => [idling, unheard],
  measure: () => {
    const total = ({ results }) =>
      layerNumbers().map((layer) => results.filter((own) => own[layer]).length);
    const [idle, deaf] = [idling, unheard].map(total);
    const all = idling.results.length;
    const each = (values) => values.map((value, own) => `${own}:\u00a0${value}`).join(", ");
    // how much oftener each answer survives without feed-forward than without heads
    const rate = (kept) => average(layerNumbers().map((layer) => Number(kept[layer])));
    const more = idling.results.map((own, i) => rate(own) - rate(unheard.results[i]));
    const middle = [idle, deaf].map((counts) => Math.round((100 * average(counts)) / all));
    return {
      rows: [
        ["idle", "", each(idle)],
        ["deaf", "", each(deaf)],
        ["idle.all", "", survivors(idling, sizes.layers)],
      ],
      outcome: choiceOf(average(more) > errorOf(more), average(more) >= -errorOf(more)),
      values: {
        count: all,
        idle: middle[0],
        deaf: middle[1],
        more: Math.round(100 * average(more)),
        error: Math.round(100 * errorOf(more)),
        none: survivors(idling, sizes.layers),
      },
    };
  },
};

/** Returns the probability of the hidden word, and its loss, the negative logarithm. */
async function lossOfHidden(what) {
  const word = live.tokenizer.ids.get(example("step").hidden);
  const states = oneRow(what, placeOf(what, "[MASK]"));
  const [share] = await live.ask("shares", { word, states });
  return { share, loss: -Math.log(share) };
}

/** Returns the probability of a word after the bias of its logit has grown. */
const afterStep = (share, growth) => {
  const odds = (share / (1 - share)) * Math.exp(growth);
  return odds / (1 + odds);
};

const STEP_RATE = 1;
const NUDGE = 0.01; // of the bias, to measure the slope of the loss

const STEP_SCENE = {
  id: "step",
  set: () => {
    const { text } = example("step");
    return { section: "predictions", text, token: placeIn(text, "[MASK]") };
  },
  act: () => ({}),
  amounts: () => ({ masked_word: example("step").hidden }),
  measure: async (before) => {
    const { share, loss } = await lossOfHidden(before);
    const gradient = share - 1;
    const slope = (-Math.log(afterStep(share, NUDGE)) - loss) / NUDGE;
    const growth = -STEP_RATE * gradient;
    const after = afterStep(share, growth);
    const best = await answersOf(before);
    return {
      rows: [
        ["answer", saidWords(best), "–"],
        ["probability", share.toPrecision(3), after.toPrecision(3)],
        ["loss", brief(loss), brief(-Math.log(after))],
        ["gradient", brief(gradient), "–"],
        ["slope", brief(slope), "–"],
      ],
      outcome: choiceOf(growth > 0, growth < 0),
      values: {
        share: share.toPrecision(3), // so that its logarithm is the loss
        loss: brief(loss),
        gradient: brief(gradient),
        slope: brief(slope),
        growth: brief(growth),
        after: after.toPrecision(3),
        lower: brief(-Math.log(after)),
      },
    };
  },
};
