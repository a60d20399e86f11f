// Evidence for two scenes: the attention of every head over hundreds of sentences, and the state
// that carries a difference.

// ---------------------------------------------------------------- many sentences

const evidence = { count: 0, rule: "previous", sums: new Map(), even: {}, running: false };

/** Returns the share of attention that a uniform head would give to each pattern. */
function evenShare(own) {
  const { real, rules } = patternRules(own);
  const mean = (values) =>
    values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  return Object.fromEntries(
    Object.entries(rules).map(([name, rule]) => [
      name,
      mean(
        real
          .map((i) => rule(i).length)
          .filter(Boolean)
          .map((keys) => keys / own.length),
      ),
    ]),
  );
}

function gather(key, value) {
  if (value === null) {
    return;
  }
  const own = evidence.sums.get(key) ?? { sum: 0, count: 0 };
  own.sum += value;
  own.count += 1;
  evidence.sums.set(key, own);
}

const meanOf = (key) => {
  const own = evidence.sums.get(key);
  return own ? own.sum / own.count : 0;
};
const evidenceOf = (layer, head, rule = evidence.rule) => meanOf(`${rule}.${layer}.${head}`);

/**
 * Runs all sentences of the article and adds up the attention that each head gives to each pattern.
 */
async function gatherEvidence() {
  if (evidence.running || evidence.count === page.lesson.sentences.length) {
    return;
  }
  evidence.running = true;
  while (evidence.count < page.lesson.sentences.length && showsFigure(evidenceFigure)) {
    const text = page.lesson.sentences[evidence.count];
    const { tokens: own, steps } = await live.compute({ text });
    const { real, rules } = patternRules(own);
    const even = evenShare(own);
    for (const [name, rule] of Object.entries(rules)) {
      gather(`${name}.even`, even[name]);
      evidence.even[name] = { mean: meanOf(`${name}.even`) };
      for (let layer = 0; layer < sizes.layers; layer++) {
        const values = steps.get(`layer.${layer}.attention.probabilities`);
        for (let head = 0; head < sizes.heads; head++) {
          gather(`${name}.${layer}.${head}`, patternShare(values, head, real, rule));
        }
      }
    }
    evidence.count += 1;
    if (evidence.count % 20 === 0) {
      drawLesson();
    }
  }
  evidence.running = false;
  drawLesson();
}

const everyHead = () =>
  Array.from({ length: sizes.layers * sizes.heads }, (_, i) => [
    Math.floor(i / sizes.heads),
    i % sizes.heads,
  ]);

/** Returns how many heads give a pattern more than twice its share by chance. */
const aboveChance = () =>
  everyHead().filter((own) => evidenceOf(...own) > 2 * evidence.even[evidence.rule].mean).length;

/** Returns the head with the largest `share(probabilities, head)` on the current text. */
function largestHead(share) {
  const shares = everyHead().map(([layer, head]) => share(attention(layer, "probabilities"), head));
  const [layer, head] = everyHead()[shares.indexOf(Math.max(...shares))];
  return { layer, head };
}

const evidenceFigure = {
  /** Resumes where the reader left the scene. */
  begin: () => {
    if (evidence.count > 0) {
      gatherEvidence();
    }
  },
  ready: () => evidence.count > 0,
  caption: () =>
    t("lesson.heads.caption", {
      rule: t(`pattern.${evidence.rule}`),
      count: soFar(evidence.count, page.lesson.sentences.length),
    }),
  choices: () =>
    Object.keys(evidence.even).map((name) => [
      t(`pattern.${name}`),
      name === evidence.rule,
      () => {
        const { real, rules } = patternRules(tokens);
        evidence.rule = name;
        change(largestHead((values, head) => patternShare(values, head, real, rules[name]) ?? 0));
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
      return `${head} · ${t(`pattern.${evidence.rule}`)}: ${written(evidenceOf(r, c))}`;
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
