// The article: a scene at a time sets the page beside it, asks what will happen, lets the reader do it, and says what came of it.

/** The scenes of the article that fits the model, which was chosen when the page was written. */
const SCENES = { en: ENGLISH, ko: KOREAN }[page.lesson?.language] ?? [];
const SCENE_COUNT = page.lesson ? SCENES.length : 0;

function buildLesson() {
  if (!page.lesson) {
    $("lesson").remove();
    return;
  }
  root.dataset.lesson = "";
  for (const [key, said] of Object.entries(page.lesson.texts)) {
    for (const language of ["en", "ko"]) {
      words[language][`lesson.${key}`] = said[language];
    }
  }
  $("scenes").replaceChildren(
    ...SCENES.map((_, i) => {
      const item = element("li");
      item.append(
        element("button", i + 1, { type: "button", id: `scene-${i}`, onclick: () => enter(i) }),
      );
      return item;
    }),
  );
  $("scene-back").onclick = () => enter(state.scene - 1);
  $("scene-next").onclick = () => enter(state.scene + 1);
  $("scene-again").onclick = () => enter(state.scene, state.guess);
  $("scene-act").onclick = act;
  $("to-model").onclick = () => $("page").scrollIntoView();
  $("to-lesson").onclick = () => $("scene-verdict").scrollIntoView({ block: "center" });
}

const sceneMap = new HeatMap("scene-map", () => SCENES[state.scene].figure.plan());

/** Opens a scene: the page is set as the scene says, whatever the reader did before. */
async function enter(scene, guess = -1) {
  const { set, then } = SCENES[scene];
  Object.assign(state, BLANK(), set(), { scene, guess });
  $("lesson").scrollTop = 0;
  await take();
  if (then && state.scene === scene) {
    change(then());
  }
  if (guess < 0) {
    $("scene-title").focus();
  }
}

/** Does for the reader what the scene asks for. */
async function act() {
  Object.assign(state, await SCENES[state.scene].act());
  await take();
  await judge.latest;
  $("scene-verdict").scrollIntoView({ block: "nearest" });
}

/** Takes over a state that was set from here. */
async function take() {
  fillEdits();
  for (const [id, name] of [
    ["compare-text", "other"],
    ["compare-same", "same"],
  ]) {
    $(id).value = state[name];
  }
  await refresh();
}

const sceneRequest = (scene) => {
  const { text, pair, masked, off, sides } = { ...BLANK(), ...scene.set() };
  return { text, pair, masked, off, padTo: page.pad_to ?? 0, sides };
};

/** Draws the scene: its text at once, its verdict when it has been measured. */
function drawLesson() {
  if (!page.lesson) {
    return;
  }
  const scene = SCENES[state.scene];
  const written = `${scene.id}.${state.language}`;
  if (drawLesson.written !== written) {
    writeScene(scene);
  }
  drawLesson.written = written;
  for (const input of $("scene-choices").querySelectorAll("input")) {
    input.checked = Number(input.value) === state.guess;
  }
  Object.assign($("scene-progress"), {
    hidden: !evidence.running,
    value: evidence.count / page.lesson.sentences.length,
  });
  judge.latest = judge(scene);
}

/** Writes what a scene says before anything is done. */
function writeScene(scene) {
  const amounts = {
    count: page.lesson.sentences.length,
    name: page.name,
    maps: sizes.layers * sizes.heads,
  };
  for (const [name, size] of Object.entries(sizes)) {
    amounts[name] = size.toLocaleString("en");
  }
  const say = (key) => t(`lesson.${scene.id}.${key}`, amounts);
  const has = (key) => words.en[`lesson.${scene.id}.${key}`];
  $("scene-title").textContent = `${state.scene + 1}. ${say("title")}`;
  $("scene-say").replaceChildren(
    ...say("say")
      .split("\n")
      .map((text) => element("p", text)),
  );
  $("scene-ask").textContent = say("ask");
  $("scene-choices").replaceChildren(
    $("scene-ask"),
    ...[0, 1, 2]
      .filter((i) => has(`choice.${i}`))
      .map((i) => {
        const label = element("label");
        const input = element("input", "", {
          type: "radio",
          name: "guess",
          value: i,
          onchange: () => change({ guess: i }),
        });
        label.append(input, element("span", say(`choice.${i}`)));
        return label;
      }),
  );
  $("scene-act-say").textContent = say("act.say");
  $("scene-act").textContent = say("act");
  $("scene-source").textContent = has("source") ? say("source") : "";
  SCENES.forEach(({ id }, i) => {
    if (i === state.scene) {
      $(`scene-${i}`).setAttribute("aria-current", "step");
    } else {
      $(`scene-${i}`).removeAttribute("aria-current");
    }
    $(`scene-${i}`).setAttribute("aria-label", `${i + 1}. ${t(`lesson.${id}.title`)}`);
  });
  $("scene-back").disabled = state.scene === 0;
  $("scene-next").hidden = state.scene === SCENE_COUNT - 1;
}

/** Measures what the reader has done against what the scene began with; the newest state wins. */
async function judge(scene) {
  const turn = (judge.turn = {});
  const done = (scene.done ?? (() => !same(sceneRequest(scene), shown.request)))();
  const found = done ? await measured(scene).catch(() => null) : null;
  if (turn !== judge.turn) {
    return;
  }
  const say = (key, values) => t(`lesson.${scene.id}.${key}`, values);
  const { figure } = scene;
  const drawn = Boolean(found && figure?.ready());
  $("scene-wait").hidden = Boolean(found);
  $("scene-table").hidden = !found;
  let guessed = "";
  if (found && state.guess < 0) {
    guessed = t("lesson.unasked");
  } else if (found) {
    const said = found.outcome === state.guess ? "lesson.right" : "lesson.wrong";
    guessed = t(said, { guess: say(`choice.${state.guess}`) });
  }
  $("scene-guess").textContent = guessed;
  $("scene-found").textContent = found
    ? say(`verdict.${found.verdict ?? found.outcome}`, found.values)
    : "";
  $("scene-figure").hidden = !drawn;
  $("scene-wire").hidden = true;
  if (found) {
    fillVerdict(found, scene);
  }
  if (!drawn) {
    return;
  }
  $("scene-caption").replaceChildren(
    element("span", `${figure.caption()} `),
    ...figure.choices().map(([name, chosen, onclick]) => {
      const button = element("button", name, { type: "button", onclick });
      button.setAttribute("aria-pressed", chosen);
      return button;
    }),
  );
  sceneMap.draw();
  $("scene-said").textContent = figure.said?.() ?? "";
  legend("scene-legend", ...figure.legend());
  if (figure === patchFigure) {
    sceneWire.draw();
  }
}

async function measured(scene) {
  const own = shown;
  scene.before ??= live.compute(sceneRequest(scene));
  const before = await scene.before;
  if (scene.figure === patchFigure) {
    sweep(before, own);
  }
  return scene.measure(before, own);
}

/** The table of a verdict: what was measured, before and after. */
function fillVerdict({ rows, heads = ["before", "after"] }, scene) {
  const own = (key) =>
    words[state.language][`lesson.${scene.id}.row.${key}`] ??
    words[state.language][`embeddings.${key}`] ??
    words[state.language][`lesson.${key}`] ??
    key;
  const head = element("tr");
  const body = element("tbody");
  const top = element("thead");
  head.append(element("td"), ...heads.map((name) => element("th", own(name), { scope: "col" })));
  top.append(head);
  for (const [label, ...cells] of rows) {
    const row = element("tr");
    row.append(
      element("th", own(label), { scope: "row" }),
      ...cells.map((cell) => element("td", cell, { dir: "auto" })),
    );
    body.append(row);
  }
  $("scene-table").replaceChildren(top, body);
}
