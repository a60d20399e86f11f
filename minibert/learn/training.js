// How a model learned: the snapshots of a pre-training run. Each one runs in the page when it is
// opened.

let pupils = null; // one model for each snapshot, loaded when the section is first opened
let answers = { prompts: [] }; // predictions of the current snapshot
let known = []; // predictions and word vectors of each snapshot, as far as they have been computed

const PROMPTS = {
  // The vocabulary shows in which language a model was trained.
  en: [
    "I have a [MASK].",
    "She opened the [MASK].",
    "He is a good [MASK].",
    "We went to [MASK] by train.",
    "I am not [MASK].",
  ],
  ko: [
    "영화가 정말 [MASK].",
    "나는 [MASK]을 먹었다.",
    "배우들의 [MASK]가 좋다.",
    "이 [MASK]는 재미있다.",
    "오늘은 [MASK]에 갔다.",
  ],
};
const FAMILIES = {
  // Words with related meanings. Each family moves together as the model learns.
  en: [
    "he she they we",
    "father mother brother sister",
    "monday sunday morning night",
    "two three five ten",
    "eat drink sleep run",
    "red blue white black",
    "happy sad tired angry",
  ],
  ko: [
    "나 너 우리 저",
    "영화 드라마 작품 연기",
    "정말 너무 아주 매우",
    "배우 감독 작가 주인공",
    "하나 둘 셋 열",
  ],
};

const snapshotName = (i) => t("training.step", { step: page.run.steps[i].toLocaleString("en") });

function buildTraining() {
  if (!page.run) {
    return;
  }
  const { run } = page;
  $("snapshot").max = run.snapshots.length - 1;
  $("snapshot").oninput = () => {
    stopPlaying();
    change({ snapshot: Number($("snapshot").value) });
  };
  $("play").onclick = play;
  for (const [id, most] of [
    ["layer", run.config.num_hidden_layers],
    ["head", run.config.num_attention_heads],
  ]) {
    $(`forming-${id}`).replaceChildren(
      ...Array.from({ length: most }, (_, i) => element("option", i, { value: i })),
    );
    $(`forming-${id}`).onchange = () => {
      forming[id] = Number($(`forming-${id}`).value);
      draw();
    };
  }
  const body = element("tbody");
  for (let i = 0; i < 5; i++) {
    const row = element("tr");
    const cell = element("td");
    const input = element("input", "", {
      type: "text",
      spellcheck: false,
      dir: "auto",
      disabled: true, // until the models are loaded, with which its text comes
    });
    input.oninput = () => {
      run.prompts[i] = input.value;
      forming.prompt = i;
      known = known.map((own) => ({ ...own, prompts: null }));
      draw();
    };
    input.onfocus = () => {
      forming.prompt = i;
      drawForming();
    };
    cell.append(input);
    row.append(cell, element("td", "", { dir: "auto" }));
    body.append(row);
  }
  $("prompts").replaceChildren(body);
}

let playing = null; // the timer of the next snapshot

/** Plays the snapshots in order, starting over after the last one. Stops if it is playing. */
function play() {
  if (playing !== null) {
    stopPlaying();
    draw();
    return;
  }
  const last = page.run.snapshots.length - 1;
  const next = () => {
    if (state.section !== "training" || state.snapshot === last) {
      stopPlaying();
      draw();
    } else {
      playing = setTimeout(next, 1400);
      change({ snapshot: state.snapshot + 1 });
    }
  };
  playing = setTimeout(next, 1400);
  change({ snapshot: state.snapshot === last ? 0 : state.snapshot });
}

function stopPlaying() {
  clearTimeout(playing);
  playing = null;
}

const forming = { layer: 0, head: 0, prompt: 0 }; // the head whose pattern is shown, and its prompt

/** Loads the models of the run, which takes a moment the first time. */
async function wakePupils() {
  const { run } = page;
  const [first, ...others] = run.snapshots;
  const own = await Live.start({ ...run, ...first });
  const share = (sentences) =>
    sentences
      .join(" ")
      .match(/[\p{L}\p{M}]+/gu)
      .filter((word) => own.tokenizer.ids.has(word.toLowerCase())).length / sentences.length;
  const language = Object.keys(FAMILIES).reduce((a, b) =>
    share(FAMILIES[b]) > share(FAMILIES[a]) ? b : a,
  );
  run.prompts ??= PROMPTS[language];
  const families = FAMILIES[language].map((family) =>
    family.split(" ").filter((word) => own.tokenizer.ids.has(word)),
  );
  run.words = families
    .flatMap((family, i) => family.map((word) => [word, i]))
    .slice(0, run.max_tokens);
  for (const [i, input] of [...$("prompts").querySelectorAll("input")].entries()) {
    Object.assign(input, { value: run.prompts[i], disabled: false });
    input.setAttribute("aria-label", t("training.prompt", { number: i + 1 }));
  }
  pupils = [own, ...others.map((weights) => own.with({ ...run, ...weights }))];
  known = pupils.map(() => ({}));
}

/** Returns a snapshot's predictions for every prompt and its word vectors. */
async function questionPupil(i) {
  const own = known[i];
  const pupil = pupils[i];
  const { words, prompts } = page.run;
  own.vectors ??= pupil
    .ask("run", {
      ids: words.map(([word]) => pupil.tokenizer.ids.get(word)),
      types: words.map(() => 0),
      mask: words.map(() => 1),
    })
    .then((steps) => new Numbers(steps.get("embeddings.word")));
  own.prompts ??= Promise.all(
    prompts.map(async (text) => {
      try {
        const found = await pupil.compute({ text });
        const place = found.tokens.findIndex((token) => token.piece === "[MASK]");
        const states = found.steps.get(`layer.${page.run.config.num_hidden_layers - 1}.output`);
        const best =
          place < 0
            ? []
            : (
                await pupil.words({
                  shape: [1, states.shape[1]],
                  data: Float32Array.from(states.row(place)),
                })
              )[0];
        return { ...found, best };
      } catch (error) {
        return { error: error.message };
      }
    }),
  );
  return { of: i, prompts: await own.prompts, vectors: await own.vectors };
}

/**
 * Draws word vectors of the current snapshot, with lines from those of the first, on the plane of
 * the last.
 */
async function drawWords(i) {
  const vectors = await Promise.all(
    [0, i, pupils.length - 1].map(async (at) => (await questionPupil(at)).vectors),
  );
  if (i !== state.snapshot) {
    return;
  }
  const { words } = page.run;
  const hues = [
    ...color("pins")
      .split(",")
      .map((hue) => hue.trim()),
    color("accent"),
    color("ink"),
  ];
  const rows = vectors.map((own) => centered(words.map((_, w) => own.row(w))));
  const [first, now] = onPlane(rows, principalAxes(rows.at(-1)));
  drawPlane(
    $("words-plane"),
    now,
    first,
    words.map(([word]) => word),
    -1,
    (w) => hues[words[w][1]],
  );
}

const formingMap = new HeatMap("forming-map", () => {
  const { prompt, layer, head, found } = forming;
  const { tokens: own, steps } = found;
  const values = steps.get(`layer.${layer}.attention.probabilities`);
  const at = (forming.cursor ?? [0, 0]).map((place) => Math.min(place, own.length - 1));
  return {
    rows: own.length,
    cols: own.length,
    square: true,
    slanted: true,
    top: 78,
    space: 380,
    cursor: at,
    palette: "sequential",
    rowLabel: (r) => own[r].piece,
    colLabel: (c) => own[c].piece,
    shade: (r, c) => Math.sqrt(values.at(head, r, c)),
    describe: (r, c) => {
      const cell = t("attention.cell", {
        layer,
        head,
        query: own[r].piece,
        key: own[c].piece,
        value: values.text(head, r, c),
      });
      return `${snapshotName(state.snapshot)} · ${cell}`;
    },
    python: (r, c) => {
      if (!page.run.folder) {
        return "";
      }
      const step = String(page.run.steps[state.snapshot]).padStart(6, "0");
      const snapshot = literal(`${page.run.folder}/checkpoints/step-${step}`);
      const cell = stepCell(`layer.${layer}.attention.probabilities`, head, r, c);
      return (
        `from minibert.study import run; t = run(${snapshot}, ` +
        `${literal(page.run.prompts[prompt])}, rounded=True); print(f"{${cell}:.4f}")`
      );
    },
    move: (r, c) => {
      forming.cursor = [r, c];
      formingMap.draw();
    },
  };
});

function drawForming() {
  const { prompts } = answers;
  const { layer, head, prompt } = forming;
  if (!prompts[prompt]?.steps) {
    return;
  }
  forming.found = prompts[prompt];
  for (const name of ["layer", "head"]) {
    $(`forming-${name}`).value = forming[name];
  }
  $("forming-caption").textContent = t("training.forming", {
    layer,
    head,
    step: snapshotName(state.snapshot),
  });
  formingMap.draw();
  legend("forming-legend", "sequential", "0", "1");
}

/**
 * Draws the logged losses over the steps. Steps are on a logarithmic axis, because most is learned
 * early.
 */
function drawLoss() {
  const canvas = $("loss");
  const { log, steps } = page.run;
  const width = Math.max(canvas.parentElement.clientWidth, 240);
  const height = 220;
  const context = prepare(canvas, width, height);
  const chance = Math.log(page.run.parameters[0][1][0]);
  const most = Math.max(chance, ...log.map(([, loss]) => loss)) * 1.05;
  const last = Math.max(steps.at(-1), log.at(-1)?.[0] ?? 1);
  const place = (step, loss) => [
    44 + (Math.log1p(step) / Math.log1p(last)) * (width - 56),
    10 + (1 - loss / most) * (height - 36),
  ];
  const line = (points, stroke, dashes = []) => {
    context.strokeStyle = color(stroke);
    context.setLineDash(dashes);
    context.beginPath();
    points.forEach((point) => context.lineTo(...point));
    context.stroke();
  };
  context.fillStyle = color("soft");
  context.textAlign = "right";
  for (let loss = 0; loss <= most; loss += 2) {
    context.fillText(loss, 36, place(0, loss)[1]);
    line([place(0, loss), place(last, loss)], "line");
  }
  line([place(0, chance), place(last, chance)], "soft", [4, 4]);
  line(
    log.map(([step, loss]) => place(step, loss)),
    "soft",
  );
  context.lineWidth = 2;
  line(
    log.map(([step]) => place(step, smoothLoss(step))),
    "accent",
  );
  line([place(steps[state.snapshot], 0), place(steps[state.snapshot], most)], "cursor");
  context.textAlign = "center";
  for (let step = 1; step <= last; step *= 10) {
    context.fillText(step.toLocaleString("en"), place(step, 0)[0], height - 10);
  }
  $("loss-caption").textContent = t("training.loss", {
    chance: chance.toFixed(2),
    now: lossAt(state.snapshot),
  });
}

/**
 * Returns the mean loss of the points within 15% of a step, because single batches vary. If there
 * is none, the nearest point is used.
 */
function smoothLoss(step) {
  const { log } = page.run;
  const away = ([other]) => Math.abs(Math.log((other + 1) / (step + 1)));
  const near = log.filter((point) => away(point) < 0.15);
  const nearest = log.reduce((best, point) => (away(point) < away(best) ? point : best));
  return average((near.length ? near : [nearest]).map(([, loss]) => loss));
}

const lossAt = (i) => (page.run.log.length ? smoothLoss(page.run.steps[i]).toFixed(2) : "–");

async function drawTraining() {
  const i = state.snapshot;
  $("snapshot").value = i;
  $("snapshot-number").textContent = snapshotName(i);
  $("play").textContent = t(playing === null ? "training.play" : "training.pause");
  drawLoss();
  pupils ?? (await (drawTraining.waking ??= wakePupils()));
  const found = await questionPupil(i);
  if (i !== state.snapshot || state.section !== "training") {
    return;
  }
  found.prompts.forEach(({ best, error }, row) => {
    const cell = $("prompts").rows[row].cells[1];
    cell.replaceChildren(
      ...(error
        ? [error]
        : best
            .slice(0, 3)
            .flatMap(([word, share]) => [element("b", word), ` ${share.toFixed(2)}  `])),
    );
  });
  answers = found;
  drawForming();
  await drawWords(i);
}

// ---------------------------------------------------------------- the scene

// The most frequent English words.
const COMMON = /^(the|a|to|of|and|is|in|i|you|it|he|was|that|\p{P})$/iu;

/** Returns the best words of two snapshots for the five prompts. */
async function answersOfPupils(snapshots) {
  pupils ?? (await (drawTraining.waking ??= wakePupils()));
  const found = [];
  for (const i of snapshots) {
    found.push((await questionPupil(i)).prompts.map(({ best }) => best?.[0]?.[0] ?? "–"));
  }
  return found;
}

const TRAINING_SCENE = {
  id: "training",
  concerns: ["snapshot"],
  set: () => ({ section: "training", snapshot: 0 }),
  act: () => ({ snapshot: 2 }),
  measure: async () => {
    const answered = await answersOfPupils([0, state.snapshot]);
    const different = answered.map((words) => new Set(words).size);
    const common = answered[1].every((word) => COMMON.test(word));
    return {
      rows: [
        ...page.run.prompts.map((prompt, i) => [prompt, answered[0][i], answered[1][i]]),
        ["different", ...different],
        ["loss", lossAt(0), lossAt(state.snapshot)],
      ],
      heads: [0, state.snapshot].map(snapshotName),
      outcome: choiceOf(lossAt(state.snapshot) > 0.95 * lossAt(0), different[1] <= 2 || common),
      values: {
        step: snapshotName(state.snapshot),
        answers: t(`lesson.training.answers.${different[1] === 1 ? "one" : "some"}`, {
          different: different[1],
        }),
      },
    };
  },
  own: async () => {
    const [first, now] = await answersOfPupils([0, state.snapshot]);
    return [
      ["step", ...[0, state.snapshot].map(snapshotName)],
      ...page.run.prompts.map((prompt, i) => [prompt, first[i], now[i]]),
      ["loss", lossAt(0), lossAt(state.snapshot)],
    ];
  },
};
