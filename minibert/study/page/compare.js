// Two sentences side by side: is "bank" the same by the river and in the city? Cosines of their tokens, layer by layer.

let compared = null; // the two computed texts
let otherToken = 0; // the chosen token of the second

function buildCompare() {
  $("compare-text").value = state.other;
  $("compare-example").onclick = tryExample;
  $("compare-text").oninput = () => { state.other = $("compare-text").value; compareTexts(); };
}

const EXAMPLES = { // a word that everybody asks about, in two meanings
  en: ["bank", "they sat on the bank of the river", "she took the money to the bank"],
  ko: ["배를", "그는 배를 타고 바다로 나갔다", "그는 배를 깎아서 먹었다"],
};

/** The language of the example: the reader's, where the model knows its word. */
const exampleLanguage = () => [state.language, "en", "ko"].find((name) => live.tokenizer.ids.has(EXAMPLES[name][0])) ?? "en";

function tryExample() {
  const [word, text, other] = EXAMPLES[exampleLanguage()];
  $("compare-text").value = other;
  const token = Math.max(live.tokens({ text }).findIndex((token) => token.piece === word), 0);
  Object.assign(state, { text, other, pair: null, masked: [], token }); // drawn when there are as many tokens
  refresh();
  fillEdits();
}

/** Computes both sentences with the page's own weights; the newest wish wins. */
async function compareTexts() {
  const wish = `${state.text}\n${state.other}`;
  compareTexts.wish = wish;
  const plain = { pair: null, masked: [], off: [], padTo: 0 };
  $("compare-trouble").textContent = "";
  try {
    const found = await Promise.all([state.text, state.other].map((text) => live.compute({ ...plain, text })));
    if (compareTexts.wish !== wish) return;
    compared = Object.assign(found, { wish });
    const token = found[0].tokens[state.token]?.piece, twin = found[1].tokens.findIndex((other) => other.piece === token);
    otherToken = twin >= 0 ? twin : Math.min(1, found[1].tokens.length - 1);
  } catch (error) {
    $("compare-trouble").textContent = error.message;
  }
  if (state.section === "compare") draw();
}

const compareCosine = (depth, i, j) => cosine(hiddenState(depth, compared[0]).row(i), hiddenState(depth, compared[1]).row(j));

function comparePython(depth, i, j) {
  const [a, b] = compared.map((text) => pythonRun(text.request, true));
  const cell = `torch.cosine_similarity(a['${stateName(depth)}'][0, ${i}], b['${stateName(depth)}'][0, ${j}], dim=0)`;
  return `import torch; from minibert.study import run; a = ${a}; b = ${b}; print(f"{${cell}:.4f}")`;
}

const compareMap = new HeatMap("compare-map", () => {
  const [first, second] = compared.map((text) => text.tokens), { depth } = state;
  const values = first.map((_, i) => second.map((_, j) => compareCosine(depth, i, j)));
  return {
    rows: first.length, cols: second.length, palette: "diverging", slanted: true, top: 78, space: 420, tallest: 34, smallest: [36, 20],
    cursor: [clamp(state.token, 0, first.length - 1), clamp(otherToken, 0, second.length - 1)],
    rowLabel: (r) => first[r].piece, colLabel: (c) => second[c].piece,
    shade: (r, c) => 0.5 + values[r][c] / 2, write: (r, c) => values[r][c].toFixed(2).replace(/^-(0\.00)$/, "$1"),
    describe: (r, c) => t("compare.cell", { state: `h${depth}`, first: first[r].piece, second: second[c].piece, value: written(values[r][c]) }),
    python: (r, c) => comparePython(depth, r, c),
    move: (r, c) => { otherToken = c; change({ token: r }); },
  };
});

function drawCompare() {
  $("compare-say").textContent = t(live ? "compare.say" : "compare.none");
  if (!live) return;
  $("compare-first").textContent = state.text;
  $("compare-example").hidden = Boolean(state.other);
  $("compare-example").textContent = t(exampleLanguage() === "ko" ? "compare.example.ko" : "compare.example.en");
  $("compare-results").hidden = !state.other;
  if (!state.other) return;
  if (!compared || compared.wish !== `${state.text}\n${state.other}`) {
    compareTexts();
    if (!compared) return;
  }
  const i = clamp(state.token, 0, compared[0].tokens.length - 1), j = clamp(otherToken, 0, compared[1].tokens.length - 1);
  compareMap.draw();
  legend("compare-legend", "diverging", "−1", "1");
  $("compare-caption").textContent = t("compare.layers", { first: compared[0].tokens[i].piece, second: compared[1].tokens[j].piece });
  const body = element("tbody");
  for (let depth = 0; depth <= sizes.layers; depth++) {
    const value = compareCosine(depth, i, j);
    const say = () => { change({ depth }); tell(compareMap.plan().describe(i, j), null, comparePython(depth, i, j)); };
    const row = element("tr", "", { onclick: say }), share = element("td", written(value));
    share.append(bar(Math.max(value, 0)));
    row.append(element("td", `h${depth}`), share);
    body.append(row);
  }
  $("compare-layers").replaceChildren(body);
  mark($("compare-layers"), state.depth);
}
