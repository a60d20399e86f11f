// Compares two sentences: is "bank" the same by the river and in the city? Shows the cosines of
// their tokens, layer by layer.

// The computed texts: the first, the second, and possibly a third with the same sense.
let compared = null;
let otherToken = 0; // the chosen token of the second text

function fillCompared() {
  $("compare-text").value = state.other;
  $("compare-same").value = state.same;
}

function buildCompare() {
  buildFollowing();
  fillCompared();
  $("compare-example").onclick = tryExample;
  $("compare-text").oninput = () => {
    state.other = $("compare-text").value;
    compareTexts();
  };
  $("compare-same").oninput = () => {
    state.same = $("compare-same").value;
    compareTexts();
  };
}

const EXAMPLES = {
  // A well-known ambiguous word: in one sense, in another, and again in the first. It stands in the
  // same place of texts of the same length, so that its h0 is the same in all of them.
  en: [
    "bank",
    "he walked along the bank of the river",
    "he worked for the bank in the city",
    "they stood on the bank of the river",
  ],
  ko: [
    "배를",
    "사람들이 배를 타고 바다로 나갔다",
    "아이들이 배를 접시에 담아 먹었다",
    "아이들이 배를 타고 바다로 나갔다",
  ],
};

/** Returns the language of the example: the reader's, if the model has a piece for its word. */
const exampleLanguage = () =>
  [state.language, "en", "ko"].find((name) => live.tokenizer.ids.has(EXAMPLES[name][0])) ?? "en";

function tryExample() {
  const [word, text, other, same] = EXAMPLES[exampleLanguage()];
  $("compare-text").value = other;
  $("compare-same").value = same;
  const token = Math.max(
    live.tokens({ text }).findIndex((token) => token.piece === word),
    0,
  );
  // Drawn by refresh, when the new tokens exist.
  Object.assign(state, { text, other, same, pair: null, masked: [], token });
  refresh();
  fillEdits();
}

/** Returns the texts to compare. Without a second sentence, the first is compared with itself. */
const wished = () => [state.text, state.other || state.text, ...(state.same ? [state.same] : [])];

/** Returns where a text has the same piece as the first text's chosen token. */
function twin({ tokens: others }) {
  const own = compared[0].tokens[clamp(state.token, 0, compared[0].tokens.length - 1)].piece;
  const place = others.findIndex((other) => other.piece === own);
  return place >= 0 ? place : Math.min(1, others.length - 1);
}

/**
 * Computes the sentences with the page's own weights, and draws the page. Sentences are computed
 * once, also if they cannot be: drawing asks for them again. Only the newest request is shown.
 */
function compareTexts() {
  const wish = wished().join("\n");
  if (compareTexts.wish !== wish) {
    compareTexts.wish = wish;
    compareTexts.done = computeCompared(wish);
  }
  return compareTexts.done;
}

async function computeCompared(wish) {
  const plain = { pair: null, masked: [], off: [], padTo: 0 };
  let found = null;
  let trouble = "";
  try {
    found = await Promise.all(wished().map((text) => live.compute({ ...plain, text })));
  } catch (error) {
    trouble = error.message;
  }
  if (compareTexts.wish !== wish) {
    return;
  }
  $("compare-trouble").textContent = trouble;
  if (found) {
    compared = Object.assign(found, { wish });
    otherToken = twin(found[1]);
  }
  if (state.section === "compare") {
    draw();
  }
}

const compareCosine = (depth, i, j, other = 1) =>
  cosine(hiddenState(depth, compared[0]).row(i), hiddenState(depth, compared[other]).row(j));

function comparePython(depth, i, j, other = 1) {
  const [a, b] = [compared[0], compared[other]].map((text) => pythonRun(text.request, true));
  const name = stateName(depth);
  const cell = `torch.cosine_similarity(a['${name}'][0, ${i}], b['${name}'][0, ${j}], dim=0)`;
  const imports = "import torch; from minibert.study import run;";
  return `${imports} a = ${a}; b = ${b}; print(f"{${cell}:.4f}")`;
}

const compareMap = new HeatMap("compare-map", () => {
  const [first, second] = compared.map((text) => text.tokens);
  const { depth } = state;
  const values = first.map((_, i) => second.map((_, j) => compareCosine(depth, i, j)));
  return {
    rows: first.length,
    cols: second.length,
    palette: "diverging",
    slanted: true,
    top: 78,
    space: 420,
    tallest: 34,
    smallest: [36, 20],
    cursor: [clamp(state.token, 0, first.length - 1), clamp(otherToken, 0, second.length - 1)],
    rowLabel: (r) => first[r].piece,
    colLabel: (c) => second[c].piece,
    shade: (r, c) => 0.5 + values[r][c] / 2,
    write: (r, c) => values[r][c].toFixed(2).replace(/^-(0\.00)$/, "$1"),
    describe: (r, c) =>
      t("compare.cell", {
        state: `h${depth}`,
        first: first[r].piece,
        second: second[c].piece,
        value: written(values[r][c]),
      }),
    python: (r, c) => comparePython(depth, r, c),
    move: (r, c) => {
      otherToken = c;
      change({ token: r });
    },
  };
});

function drawCompare() {
  $("compare-say").textContent = t(live ? `compare.say.${state.unit}` : "compare.none");
  if (!live) {
    return;
  }
  $("compare-first").textContent = state.text;
  $("compare-third").textContent = t(`compare.third.${state.unit}`);
  $("compare-example").hidden = Boolean(state.other);
  $("compare-example").textContent = t(
    exampleLanguage() === "ko" ? "compare.example.ko" : "compare.example.en",
  );
  $("follow-box").hidden = !state.other;
  compareTexts();
  if (!compared) {
    return;
  }
  const i = clamp(state.token, 0, compared[0].tokens.length - 1);
  const j = clamp(otherToken, 0, compared[1].tokens.length - 1);
  const ofWords = state.unit === "words";
  $("compare-words").hidden = !ofWords;
  $("compare-sentences").hidden = ofWords;
  if (ofWords) {
    compareMap.draw();
  } else {
    drawSentences();
  }
  $("compare-map-caption").textContent = t(state.other ? "compare.map" : "compare.map.itself");
  legend("compare-legend", "diverging", "−1", "1");
  const captionOfWords = t("compare.layers", {
    first: compared[0].tokens[i].piece,
    second: compared[1].tokens[j].piece,
  });
  $("compare-caption").textContent = ofWords ? captionOfWords : t("compare.layers.sentences");
  const body = element("tbody");
  const pairs = [[1, j], ...(compared[2] ? [[2, twin(compared[2])]] : [])];
  for (let depth = 0; depth <= sizes.layers; depth++) {
    const row = element("tr");
    row.append(element("td", `h${depth}`));
    for (const [other, k] of pairs) {
      const value = ofWords
        ? compareCosine(depth, i, k, other)
        : sentenceCosine(compared, depth, other);
      const said = {
        state: `h${depth}`,
        first: ofWords ? compared[0].tokens[i].piece : compared[0].request.text,
        second: ofWords ? compared[other].tokens[k].piece : compared[other].request.text,
      };
      const say = () => {
        change({ depth });
        tell(
          t("compare.cell", { ...said, value: written(value) }),
          null,
          ofWords ? comparePython(depth, i, k, other) : sentencePython(depth, other),
        );
      };
      const share = element("td", written(value), { onclick: say });
      share.append(bar(Math.max(value, 0)));
      row.append(share);
    }
    body.append(row);
  }
  const head = element("thead");
  head.append(
    element("th"),
    ...pairs.map(([other]) =>
      element("th", t(other === 1 ? "compare.column" : "compare.column.same")),
    ),
  );
  $("compare-layers").replaceChildren(...(compared[2] ? [head] : []), body);
  mark($("compare-layers"), state.depth);
  const [other, same] = pairs.map(([other, k]) => compareCosine(sizes.layers, i, k, other));
  const pieces = new Set(
    [compared[0].tokens[i], ...pairs.map(([other, k]) => compared[other].tokens[k])].map(
      (token) => token.piece,
    ),
  );
  const told = compared[2] && {
    state: `h${sizes.layers}`,
    other: other.toFixed(4),
    same: same.toFixed(4),
  };
  let verdict = "";
  if (!ofWords || !state.other) {
    verdict = "";
  } else if (!told) {
    verdict = t("compare.alone");
  } else if (pieces.size > 1) {
    verdict = t("compare.pieces");
  } else if (new Set([i, ...pairs.map(([, k]) => k)]).size > 1) {
    verdict = t("compare.places", told); // even h0 differs then
  } else {
    verdict = t(same > other ? "compare.apart" : "compare.together", told);
  }
  $("compare-verdict").textContent = verdict;
  drawFollowing();
}
