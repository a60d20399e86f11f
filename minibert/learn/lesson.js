// The article. Each scene sets the page next to it, asks what will happen, lets the reader act, and
// explains the result.

/** Whether the model has the weights that a scene needs. */
const fits = ({ needs }) => !needs || page.live.parameters.some(([name]) => name === needs);

/** The scenes of the article that fits the model. build.py chose it when the page was written. */
const SCENES = ({ en: ENGLISH, ko: KOREAN }[page.lesson?.language] ?? []).filter(fits);
const SCENE_COUNT = page.lesson ? SCENES.length : 0;

function buildLesson() {
  if (!page.lesson) {
    $("lesson").remove();
    $("explore").remove();
    return;
  }
  root.dataset.lesson = "";
  for (const [key, said] of Object.entries(page.lesson.texts)) {
    for (const language of ["en", "ko"]) {
      words[language][`lesson.${key}`] = said[language];
    }
  }
  $("scenes").replaceChildren(
    ...[...SCENES.keys(), SCENE_COUNT].map((i) => {
      const item = element("li");
      const name = i < SCENE_COUNT ? i + 1 : "✓";
      item.append(
        element("button", name, { type: "button", id: `scene-${i}`, onclick: () => enter(i) }),
      );
      return item;
    }),
  );
  $("scene-back").onclick = () => enter(state.scene - 1);
  $("scene-next").onclick = () => enter(state.scene + 1);
  $("scene-again").onclick = () => enter(state.scene);
  $("scene-act").onclick = act;
  $("explore").onclick = () => change({ explore: state.explore ? "" : "yes" });
  $("to-model").onclick = () => $("page").scrollIntoView();
  $("to-lesson").onclick = () => $("scene-verdict").scrollIntoView({ block: "center" });
}

// What a scene only shows: it can be used once the reader explores everything.
const SHOWN_ONLY = ["compare-edit", "prompts"];

/**
 * Shows either the scene's own controls alone, or everything that the page has. A question opened
 * from outside and the end of the article belong to the latter.
 */
function drawStage() {
  const calm = Boolean(page.lesson && SCENES[state.scene]) && !state.explore && !state.ask;
  root.toggleAttribute("data-calm", calm);
  for (const id of SHOWN_ONLY) {
    $(id).inert = calm;
  }
  if (page.lesson) {
    $("explore").setAttribute("aria-pressed", !calm);
  }
}

let drawnFigure = null; // the figure whose map is shown, which may belong to an earlier scene
const sceneMap = new HeatMap("scene-map", () => drawnFigure.plan());

/**
 * Opens a scene, or the end after the last one. The page is set to the scene's state, whatever the
 * reader did before.
 */
async function enter(scene) {
  judge.turn = {}; // cancels the judging of the previous scene
  const beginWith = (title) => {
    scrollerOf($("lesson")).scroller.scrollTop = 0;
    $(title)?.focus({ preventScroll: true }); // the end is drawn once its tokens are computed
  };
  if (scene === SCENE_COUNT) {
    change({ scene, guess: -1, ask: "" });
    beginWith("ending-title");
    return;
  }
  const { id, set, then } = SCENES[scene];
  Object.assign(state, BLANK(), set(), { scene, guess: keptGuess(id)?.guess ?? -1 });
  await take();
  if (state.scene !== scene) {
    return;
  }
  then?.();
  draw();
  beginWith("scene-title");
}

/**
 * Performs the scene's action. After the door of a question, it first returns to the beginning of
 * the scene.
 */
async function act() {
  const { scene } = state;
  if (state.ask) {
    await enter(scene);
  }
  const { id, set, act: asked, work } = SCENES[scene];
  pressed.add(id);
  Object.assign(state, BLANK(), set(), asked());
  await Promise.all([take(), work?.()]);
  if (state.scene !== scene) {
    return;
  }
  await judged();
  // The prediction, the act and the verdict fit the window together.
  $("scene-predict").scrollIntoView({ block: "start" });
  if (!$("scene-act").checkVisibility()) {
    $("scene-result").focus({ preventScroll: true }); // the button has gone
  }
}

/** Applies a state that the article has set. */
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

/** Draws the scene: its text at once, its verdict as soon as it is measured. */
function drawLesson() {
  if (!page.lesson) {
    return;
  }
  drawSwitches();
  const scene = SCENES[state.scene];
  $("scene").hidden = !scene;
  $("ending").hidden = Boolean(scene);
  drawSceneNumbers();
  if (!scene) {
    drawEnding();
    return;
  }
  const written = `${scene.id}.${state.language}`;
  if (drawLesson.written !== written) {
    writeScene(scene);
  }
  drawLesson.written = written;
  drawChoices(scene);
  const own = scene.progress?.();
  const { running, part } = own?.running ? own : progressOf(scene.experiments?.() ?? []);
  Object.assign($("scene-progress"), { hidden: !running, value: part });
  judge.latest = judge(scene);
}

/** Offers the other language, and the other set of scenes, which has a model of its own. */
function drawSwitches() {
  if (drawSwitches.language === state.language) {
    return;
  }
  drawSwitches.language = state.language;
  const other = state.language === "en" ? "ko" : "en";
  Object.assign($("other-language"), {
    textContent: words[other]["lesson.read"],
    lang: other,
    onclick: (event) => {
      event.preventDefault();
      change({ language: other });
    },
  });
  $("other-scenes").replaceChildren(...rich(t("lesson.others")));
}

/** Returns the values that the texts of scenes mention. */
function amounts() {
  const all = {
    count: page.lesson.sentences.length,
    name: page.name,
    maps: sizes.layers * sizes.heads,
    ...SCENES[state.scene]?.amounts?.(),
  };
  for (const [name, size] of Object.entries(sizes)) {
    all[name] = size.toLocaleString("en");
  }
  for (const [i, { id }] of SCENES.entries()) {
    all[`scene_${id}`] = i + 1; // for texts that refer to another scene
  }
  return all;
}

/** Writes the texts of a scene that are visible before the reader acts. */
function writeScene(scene) {
  const say = (key) => t(`lesson.${scene.id}.${key}`, amounts());
  const has = (key) => words.en[`lesson.${scene.id}.${key}`];
  $("scene-more").open = false;
  saysNew.last = new WeakMap(); // every part is written anew, without explanations
  for (const explained of $("scene").querySelectorAll(".explained")) {
    explained.remove();
  }
  $("scene-title").textContent = `${state.scene + 1}. ${say("title")}`;
  const seen = new Set();
  const paragraphs = say("say").split("\n");
  $("scene-verdict").after($("scene-figure")); // an opening lies between the paragraphs
  $("scene-say").replaceChildren(
    ...paragraphs.map((text) => {
      const paragraph = element("p");
      paragraph.append(...rich(text, seen));
      return paragraph;
    }),
    // the texts say of the article's own model how it was trained, and which heads stand out
    ...(page.lesson.measured ? [] : [element("p", t("lesson.foreign", amounts()))]),
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
        const text = element("span", say(`choice.${i}`));
        text.append(" ", element("small"));
        label.append(input, text);
        return label;
      }),
  );
  $("scene-act-say").textContent = say("act.say");
  $("scene-act").textContent = say("act");
  $("scene-source").replaceChildren(...rich(has("source") ? say("source") : ""));
}

/** Updates the numbers of the scenes and the buttons to the previous and the next one. */
function drawSceneNumbers() {
  for (const [i, button] of [...$("scenes").querySelectorAll("button")].entries()) {
    if (i === state.scene) {
      button.setAttribute("aria-current", "step");
    } else {
      button.removeAttribute("aria-current");
    }
    const name = i < SCENE_COUNT ? `${i + 1}. ${t(`lesson.${SCENES[i].id}.title`)}` : "";
    button.setAttribute("aria-label", name || t("lesson.end.title"));
  }
  $("scene-back").disabled = state.scene === 0;
  $("scene-next").hidden = state.scene === SCENE_COUNT;
}

/** Shows what the page may say about the current state. Only the newest state is shown. */
async function judge(scene) {
  const turn = (judge.turn = {});
  const { may, changed } = standing(scene);
  let found = null;
  let failure = null;
  try {
    found = may === "nothing" ? null : await measured(scene, may);
  } catch (error) {
    failure = error;
    judge.error = error; // for tests
  }
  if (turn !== judge.turn) {
    return;
  }
  const isVerdict = Boolean(found && may === "verdict");
  const { figure } = scene;
  // a figure with choices shows what was measured for any of them, also for a changed question
  const mayDraw = isVerdict || (found && figure?.choices().length > 0);
  const drawn = Boolean(figure?.opening || (mayDraw && figure?.ready()));
  $("scene-wait").hidden = Boolean(found || state.ask);
  $("scene-wait").textContent = failure?.message || t("lesson.wait");
  $("scene-aside").hidden = !state.ask;
  $("scene-more").hidden = !found;
  $("scene-figure").hidden = !drawn;
  $("scene-wire").hidden = true;
  $("scene-verdict").dataset.may = may;
  if (may === "changed") {
    $("scene-more").open = true; // nothing else is said
  }
  if (isVerdict) {
    keepGuess(scene.id, found, pressed.has(scene.id));
  }
  if (found) {
    fillVerdict(found, scene);
  }
  drawChoices(scene, isVerdict ? found : null);
  tellVerdict(scene, found, may, changed);
  if (drawn) {
    drawFigure(figure);
  }
}

/** Waits for the newest judgment: another may begin while one is awaited. */
async function judged() {
  let latest;
  do {
    ({ latest } = judge);
    await latest;
  } while (latest !== judge.latest);
}

const BRIEF = { en: 280, ko: 150 }; // characters of a verdict that are shown at once

/** Returns the first sentence of a verdict, those that follow in brief, and the others. */
function inParts(whole) {
  const [first, ...others] = whole.split(/(?<=[.?!])\s+/);
  let room = BRIEF[state.language] - first.length;
  const end = others.findIndex((sentence) => (room -= sentence.length + 1) < 0);
  const count = end < 0 ? others.length : end;
  return [first, others.slice(0, count).join(" "), others.slice(count).join(" ")];
}

/**
 * Whether an element is to say something else than it does. What it says already is not written
 * again, so that what the reader opened there, or what has the focus, stays.
 */
function saysNew(box, ...said) {
  const all = JSON.stringify([state.language, said]);
  const isNew = saysNew.last.get(box) !== all;
  saysNew.last.set(box, all);
  return isNew;
}
saysNew.last = new WeakMap();

/** Shows what the reader predicted, and the result in brief, its first sentence in bold. */
function tellVerdict(scene, found, may, changed) {
  $("scene-guess").textContent = "";
  $("scene-again-said").textContent = found ? saidAgain(scene.experiments?.() ?? []) : "";
  if (!found) {
    if (saysNew($("scene-brief"))) {
      $("scene-brief").replaceChildren();
      $("scene-rest").replaceChildren();
    }
    return;
  }
  const whole =
    may === "verdict"
      ? t(`lesson.${scene.id}.verdict.${found.verdict ?? found.outcome}`, {
          ...amounts(),
          ...found.values,
        })
      : t("lesson.changed", { parts: changed.map((name) => t(`lesson.part.${name}`)).join(", ") });
  const { rows, heads, values = {} } = found;
  if (saysNew($("scene-brief"), scene.id, rows, heads, values, whole)) {
    const [first, next, rest] = inParts(whole);
    const seen = new Set();
    $("scene-brief").replaceChildren(element("strong", first), " ", ...rich(next, seen));
    $("scene-rest").replaceChildren(...rich(rest, seen));
    linkNumbers($("scene-brief"), Object.values(values));
    linkNumbers($("scene-rest"), Object.values(values));
  }
  if (may !== "verdict") {
    return;
  }
  if (state.guess < 0) {
    $("scene-guess").textContent = t("lesson.unasked");
  } else {
    $("scene-guess").textContent = t(
      found.outcome === state.guess ? "lesson.right" : "lesson.wrong",
      { guess: t(`lesson.${scene.id}.choice.${state.guess}`, amounts()) },
    );
  }
}

/**
 * Turns each number of a verdict that a cell of the table holds into a button, which opens the
 * table and lights up the cell. The verdict and the table hold the same measured values.
 */
function linkNumbers(box, values) {
  const cells = [...$("scene-table").querySelectorAll("td")];
  const holds = (cell, value) => cell.textContent.split(/[^\p{L}\d.%−-]+/u).includes(value);
  const numbers = values
    .filter((value) => /^[−-]?\d+(\.\d+)?%?$/.test(value) && String(value).length > 2)
    .filter((value) => cells.some((cell) => holds(cell, value)));
  if (!numbers.length) {
    return;
  }
  const found = new RegExp(
    `(?<![\\d.−-])(${numbers.map((number) => number.replace(".", "\\.")).join("|")})(?![\\d%]|\\.\\d)`,
    "u",
  );
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    texts.push(walker.currentNode);
  }
  for (const text of texts) {
    const parts = text.textContent.split(found);
    text.replaceWith(
      ...parts.map((part, i) => {
        if (i % 2 === 0) {
          return part;
        }
        const lit = cells.filter((cell) => holds(cell, part));
        return numberButton(part, lit);
      }),
    );
  }
}

function numberButton(text, cells) {
  const light = (isLit) => cells.forEach((cell) => cell.classList.toggle("lit", isLit));
  const button = element("button", text, { type: "button", className: "number" });
  button.onpointerenter = button.onfocus = () => light(true);
  button.onpointerleave = button.onblur = () => light(false);
  button.onclick = () => {
    $("scene-more").open = true;
    light(true);
    cells[0].scrollIntoView({ block: "nearest" });
  };
  return button;
}

/** Draws the figure of a verdict: a map of cells, or what the figure draws itself. */
function drawFigure(figure) {
  const caption = figure.caption();
  if (saysNew($("scene-caption"), caption)) {
    $("scene-caption").replaceChildren(...rich(`${caption} `));
  }
  const choices = figure.choices();
  const names = choices.map(([name]) => name);
  if (saysNew($("scene-shown"), names)) {
    const buttons = names.map((name) => element("button", name, { type: "button" }));
    $("scene-shown").replaceChildren(...buttons);
  }
  for (const [i, [, chosen, onclick]] of choices.entries()) {
    const button = $("scene-shown").children[i];
    button.onclick = onclick;
    button.setAttribute("aria-pressed", chosen);
  }
  const above = figure.opening ? $("scene-say").firstElementChild : $("scene-verdict");
  if (above.nextElementSibling !== $("scene-figure")) {
    above.after($("scene-figure"));
  }
  const isMap = Boolean(figure.plan);
  $("scene-map").parentElement.hidden = !isMap;
  $("scene-legend").hidden = !isMap;
  $("scene-drawn").hidden = isMap;
  if (isMap) {
    drawnFigure = figure;
    sceneMap.draw();
    legend("scene-legend", ...figure.legend());
  } else {
    if (drawFigure.drawn !== figure) {
      $("scene-drawn").replaceChildren();
    }
    drawFigure.drawn = figure;
    figure.draw($("scene-drawn"));
  }
  const said = figure.said?.() ?? "";
  if (saysNew($("scene-said"), said)) {
    $("scene-said").replaceChildren(...rich(said));
  }
  if (figure === patchFigure) {
    sceneWire.draw();
  }
}

/**
 * Returns what the page has to say: the measurements of the verdict, once all experiments are
 * complete, or those of any text.
 */
async function measured(scene, may) {
  const own = shown;
  const isOpen = () => SCENES[state.scene] === scene;
  scene.before ??= live.compute(requestOf(firstState(scene)));
  const before = await scene.before;
  if (may === "changed") {
    return measuredAnyway(scene, before, own);
  }
  const experiments = scene.experiments?.() ?? [];
  conduct(experiments, isOpen);
  if (!experiments.every(({ complete }) => complete)) {
    return null;
  }
  scene.figure?.begin?.(before, own);
  return scene.measure(before, own);
}

/** Runs experiments one after the other. */
async function conduct(experiments, isOpen) {
  for (const experiment of experiments) {
    await experiment.begin(isOpen);
  }
}

/** Fills the table of a verdict with the measurements before and after. */
function fillVerdict({ rows, heads = ["before", "after"] }, scene) {
  if (!saysNew($("scene-table"), scene.id, rows, heads)) {
    return;
  }
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
