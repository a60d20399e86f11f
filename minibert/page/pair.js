// The scene on two sentences: segments, [CLS] and its pooler, the next sentence, and padding.

const HUNGRY = ["I am hungry.", "Let us eat something."];
const PADS = 8; // tokens of padding added in the scene

/** How likely the second text follows the first, as the next-sentence head has it. */
function followsOf(what) {
  const logits = what.steps.get("nsp.logits");
  return logits ? 1 / (1 + Math.exp(logits.at(1) - logits.at(0))) : null;
}

/** The last vectors of a text with every token in the first segment. */
async function withoutSegments(what) {
  const column = (name) => what.tokens.map((token) => token[name]);
  const input = { ids: column("id"), types: what.tokens.map(() => 0), mask: column("mask") };
  const steps = await live.ask("run", input);
  return new Numbers(steps.get(stateName(sizes.layers)));
}

/** What segments and padding do to a text: a cosine, the largest difference, and how long a [PAD]'s vector is. */
async function segmentsAndPads(what) {
  const last = hiddenState(sizes.layers, what);
  const plain = await withoutSegments(what);
  const seq = what.tokens.length;
  const padTo = Math.min(seq + PADS, live.longest);
  const { text, pair } = what.request;
  const padded = hiddenState(sizes.layers, await live.compute({ text, pair, padTo }));
  let difference = 0;
  for (let i = 0; i < seq; i++) {
    const row = padded.row(i);
    last.row(i).forEach((value, c) => {
      difference = Math.max(difference, Math.abs(value - row[c]));
    });
  }
  return {
    segments: cosine(last.row(0), plain.row(0)),
    difference,
    pad: padTo > seq ? lengthOf(padded.row(seq)) : 0,
  };
}

const PAIR_SCENE = {
  id: "pair",
  set: () => ({ section: "pooler", text: HUNGRY[0], pair: HUNGRY[1], token: 0 }),
  act: () => ({ text: HUNGRY[0], pair: "The war ended in 1945." }),
  measure: async (before, now) => {
    const both = [before, now];
    const follows = both.map((what) => (what.request.pair === null ? null : followsOf(what)));
    const found = await Promise.all(
      both.map((what) => (what.segmentsAndPads ??= segmentsAndPads(what))),
    );
    const [a, b] = follows;
    const each = (name, digits) => found.map((own) => own[name].toFixed(digits));
    return {
      rows: [
        ["follows", ...follows.map((value) => (value === null ? "–" : written(value)))],
        ["segments", ...each("segments", 4)],
        ["difference", ...each("difference", 6)],
        ["pad", ...each("pad", 2)],
      ],
      outcome: choiceOf(b !== null && b < 0.5, b !== null && b < a),
      verdict: b === null ? 3 : undefined,
      values: {
        before: a.toFixed(2),
        after: (b ?? 0).toFixed(2),
        ...found[1],
        segments: each("segments", 3)[1],
        pad: each("pad", 1)[1],
      },
    };
  },
};
