// Compares whole sentences. A sentence vector is the mean of all tokens, and curves over the layers
// show which sentence is closer.

const meanVector = (which, depth) => meanState(compared[which], depth);
const sentenceCosine = (texts, depth, which) =>
  cosine(meanState(texts[0], depth), meanState(texts[which], depth));

function sentencePython(depth, which) {
  const [a, b] = [compared[0], compared[which]].map((text) => pythonRun(text.request, true));
  const name = stateName(depth);
  const cell = `torch.cosine_similarity(a['${name}'][0].mean(0), b['${name}'][0].mean(0), dim=0)`;
  const imports = "import torch; from minibert.study import run;";
  return `${imports} a = ${a}; b = ${b}; print(f"{${cell}:.4f}")`;
}

const sentenceMap = new HeatMap("sentence-map", () => {
  const { depth } = state;
  const vectors = compared.map((_, which) => meanVector(which, depth));
  // Outliers would make all others look alike.
  const most = Math.max(...vectors.flat().map(Math.abs)) / 2;
  const rows = vectors.length;
  return {
    rows,
    cols: sizes.hidden,
    palette: "diverging",
    space: 60 * rows,
    tallest: 60,
    left: 150,
    smallest: [2, 30],
    cursor: [Math.min(state.row, rows - 1), state.number],
    rowLabel: (r) => compared[r].request.text,
    shade: (r, c) => 0.5 + vectors[r][c] / most / 2,
    describe: (r, c) =>
      t("vector.cell", {
        row: `h${depth} “${compared[r].request.text}”`,
        index: c,
        value: written(vectors[r][c]),
      }),
    python: (r, c) =>
      `from minibert.study import run; t = ${pythonRun(compared[r].request, true)}; ` +
      `print(f"{t['${stateName(depth)}'][0].mean(0)[${c}]:.4f}")`,
    move: (r, c) => change({ row: r, number: c }),
  };
});

/**
 * Draws the vectors of the sentences at a depth, and their cosines with the first over the layers.
 */
function drawSentences() {
  const depths = Array.from({ length: sizes.layers + 1 }, (_, depth) => depth);
  sentenceMap.draw();
  $("sentence-caption").textContent = t("compare.vectors", { state: `h${state.depth}` });
  const curves = compared.slice(1).map(({ request }, i) => ({
    name: request.text,
    means: depths.map((depth) => sentenceCosine(compared, depth, i + 1)),
  }));
  drawCurves($("sentence-curves"), {
    labels: depths.map((depth) => `h${depth}`),
    curves,
    at: state.depth,
    label: curves
      .map(({ name, means }) => `${name}: ${means.map((mean) => mean.toFixed(2)).join(", ")}`)
      .join(". "),
  });
}
