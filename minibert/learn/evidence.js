// Evidence for two scenes: the attention of every head over hundreds of sentences, and the state
// that carries a difference.

// ---------------------------------------------------------------- many sentences

const NO_SHARE = 255; // in a sentence that a pattern does not apply to

const everyHead = () =>
  Array.from({ length: sizes.layers * sizes.heads }, (_, i) => [
    Math.floor(i / sizes.heads),
    i % sizes.heads,
  ]);

/** Returns the share of attention that a uniform head would give to each pattern. */
function evenShare(own) {
  const { real, rules } = patternRules(own);
  return Object.fromEntries(
    Object.entries(rules).map(([name, rule]) => {
      const counts = real.map((i) => rule(i).length).filter(Boolean);
      return [name, counts.length ? average(counts) / own.length : null];
    }),
  );
}

/**
 * The attention that every head gives to every pattern in each sentence of the article. A result
 * holds one byte for each pattern and head, after one for a uniform head: 254 times the share.
 */
const evidence = new Experiment(
  "evidence",
  () => page.lesson.sentences,
  async (text) => {
    const { tokens: own, steps } = await live.compute({ text });
    const { real, rules } = patternRules(own);
    const even = evenShare(own);
    const shares = Object.keys(rules).flatMap((name) => [
      even[name],
      ...everyHead().map(([layer, head]) =>
        patternShare(steps.get(`layer.${layer}.attention.probabilities`), head, real, rules[name]),
      ),
    ]);
    const bytes = shares.map((share) => (share === null ? NO_SHARE : Math.round(254 * share)));
    return btoa(String.fromCharCode(...bytes));
  },
  (a, b) => {
    const [one, other] = [atob(a), atob(b)];
    return [...one].every((byte, i) => Math.abs(byte.charCodeAt(0) - other.charCodeAt(i)) <= 2);
  },
);

/** Returns the shares of a pattern in all sentences: those of a uniform head, then of each head. */
function evidenceFor(rule) {
  return keep(`evidence.${rule}.${evidence.results.length}`, () => {
    const all = evidence.results.map((result) => atob(result));
    const width = 1 + sizes.layers * sizes.heads;
    const from = patternNames().indexOf(rule) * width;
    return Array.from({ length: width }, (_, i) =>
      all
        .map((bytes) => bytes.charCodeAt(from + i))
        .filter((value) => value !== NO_SHARE)
        .map((value) => value / 254),
    );
  });
}
const patternNames = () => Object.keys(patternRules(tokens).rules);
const sharesOfHead = (layer, head, rule = state.rule) =>
  evidenceFor(rule)[1 + layer * sizes.heads + head];
const evidenceOf = (layer, head) => average(sharesOfHead(layer, head));
const evenEvidence = (rule = state.rule) => average(evidenceFor(rule)[0]);

/**
 * Returns by how much a head's share exceeds that of a uniform head in the same sentences, with the
 * half width of its interval. `heads` is the number of heads that are looked at together.
 */
function aboveChance(layer, head, heads = 1) {
  const even = evidenceFor(state.rule)[0];
  const differences = sharesOfHead(layer, head).map((share, i) => share - even[i]);
  const wide = heads > 1 ? 3.3 / 1.96 : 1; // 0.05 / 48 for each of 48 heads
  return { mean: average(differences), error: wide * errorOf(differences) };
}

/** Returns how many heads exceed chance by more than the error of all of them together. */
function headsAboveChance() {
  const all = everyHead();
  return all.filter(([layer, head]) => {
    const { mean, error } = aboveChance(layer, head, all.length);
    return mean > error;
  }).length;
}

/** Returns the head with the largest `share(probabilities, head)` on the current text. */
function largestHead(share) {
  const shares = everyHead().map(([layer, head]) => share(attention(layer, "probabilities"), head));
  const [layer, head] = everyHead()[shares.indexOf(Math.max(...shares))];
  return { layer, head };
}

const evidenceFigure = {
  ready: () => evidence.complete,
  caption: () =>
    t("lesson.heads.caption", {
      rule: t(`pattern.${state.rule}`),
      count: sharesOfHead(0, 0).length,
    }),
  choices: () =>
    patternNames().map((name) => [
      t(`pattern.${name}`),
      name === state.rule,
      () => {
        const { real, rules } = patternRules(tokens);
        const head = largestHead(
          (values, own) => patternShare(values, own, real, rules[name]) ?? 0,
        );
        change({ ...head, rule: name });
      },
    ]),
  legend: () => ["sequential", "0", "1"],
  plan: () => ({
    rows: sizes.layers,
    cols: sizes.heads,
    palette: "sequential",
    space: 300,
    tallest: 30,
    left: 40,
    smallest: [30, 24],
    cursor: [state.layer, state.head],
    rowLabel: (r) => `${r}`,
    colLabel: (c) => `${c}`,
    shade: (r, c) => evidenceOf(r, c),
    write: (r, c) => evidenceOf(r, c).toFixed(2),
    describe: (r, c) => {
      const head = t("attention.chosen", { layer: r, head: c });
      return `${head} · ${t(`pattern.${state.rule}`)}: ${written(evidenceOf(r, c))}`;
    },
    python: () => "",
    move: (layer, head) => change({ layer, head }),
  }),
};

// ---------------------------------------------------------------- one state from another text

const patching = { ...blankMap("", []), hides: false };

/** Fills the map of the scene's two texts, with "it" masked. Results of other texts are dropped. */
async function sweep(before, now) {
  const texts = [before, now].map((what) => hideIt(what.request.text));
  const key = texts.join("\n");
  if (patching.key === key) {
    return;
  }
  const requests = texts.map((text) => ({ text }));
  const hides = texts[0] !== before.request.text || texts[1] !== now.request.text;
  Object.assign(patching, blankMap(key, requests), { hides });
  const wanted = () => patching.key === key && showsFigure(patchFigure);
  await fillMap(patching, wanted, drawLesson);
  // The sweep was interrupted, so it has to run again.
  if (patching.key === key && patching.texts && patching.cells.length < sizes.layers) {
    patching.key = null;
  }
}

/** Shows the best words with one state replaced. */
async function patchAt(layer, token) {
  const what = await patchedText(patching, layer, token);
  patching.chosen = { layer, token, words: await answersOf(what) };
  drawLesson();
}

/**
 * Returns where a token of the map is in the text of the page, which has a word instead of "the
 * [MASK]".
 */
function placeOnPage(token) {
  const { place, texts } = patching;
  const more = texts[0].tokens.length - count;
  return token < place ? Math.min(token, place - more) : token - more;
}

const patchFigure = {
  begin: sweep,
  ready: () => patching.cells.length > 0 && patching.texts !== null,
  caption() {
    const said = t("lesson.it.caption", {
      word: patching.word,
      before: patching.plain[0].toFixed(3),
      after: patching.plain[1].toFixed(3),
    });
    return patching.hides ? `${said} ${t("lesson.it.replaced")}` : said;
  },
  choices: () => [],
  legend: () => ["sequential", "0", Math.max(...patching.plain).toFixed(2)],
  said: () => {
    const { chosen, texts } = patching;
    return chosen
      ? t("lesson.it.patched", {
          token: texts[1].tokens[chosen.token].piece,
          layer: chosen.layer,
          words: saidWords(chosen.words),
        })
      : t("lesson.it.click");
  },
  plan: () => {
    const { texts, cells, plain, place, id } = patching;
    const most = Math.max(...plain);
    const [own, other] = texts.map((what) => what.tokens);
    const at = patching.chosen ?? { layer: 0, token: place };
    const value = (r, c) => cells[c]?.[r]; // undefined until it is measured
    return {
      rows: own.length,
      cols: sizes.layers,
      palette: "sequential",
      space: 420,
      tallest: 24,
      left: 84,
      smallest: [34, 22],
      cursor: [at.token, at.layer],
      rowLabel: (r) => other[r].piece,
      colLabel: (c) => `${c}`,
      shade: (r, c) => (value(r, c) === undefined ? null : Math.min(value(r, c) / most, 1)),
      write: (r, c) => value(r, c)?.toFixed(2) ?? "",
      describe: (r, c) =>
        t("lesson.it.cell", {
          token: other[r].piece,
          layer: c,
          word: patching.word,
          value: value(r, c) === undefined ? "…" : written(value(r, c)),
        }),
      python: (r, c) => {
        const inputs = literal([texts[1], texts[0]].map((what) => what.request.text));
        const share = `lambda out: out.prediction_logits.softmax(-1)[:, ${place}, ${id}]`;
        return (
          "from minibert.study import patching_sweep, rounded; " +
          "from minibert import BertForPreTraining, BertTokenizer; " +
          `name = ${literal(page.source)}; ` +
          "model, cut = rounded(BertForPreTraining.from_pretrained(name)).eval(), " +
          "BertTokenizer.from_pretrained(name); " +
          `a, b = (cut(text, return_tensors="pt") for text in ${inputs}); ` +
          `print(f"{patching_sweep(model, a, b, ${share})[${c}, ${r}]:.4f}")`
        );
      },
      move: (token, layer) => {
        patching.chosen = { layer, token, words: [] };
        change({ token: placeOnPage(token) });
        patchAt(layer, token);
      },
    };
  },
};
