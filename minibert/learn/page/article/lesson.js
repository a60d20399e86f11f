// The article. Each scene sets the page next to it, asks what will happen, lets the reader act, and
// explains the result.

import { amounts } from "./amounts.js";
import { BLANK } from "./beginning.js";
import { drawEnding } from "./ending.js";
import { progressOf } from "./experiment.js";
import { drawChoices, keepGuess, keptGuess } from "./guesses.js";
import { SCENES, SCENE_COUNT, SHORT } from "./order.js";
import { firstState, measuredAnyway, pressed, standing } from "./question.js";
import { printSheets } from "./sheets.js";
import { drawFigure, fillVerdict, saysNew, tellVerdict } from "./verdict.js";
import { $, element } from "../parts/elements.js";
import { rich } from "../parts/rich-text.js";
import { scrollerOf } from "../parts/scrolling.js";
import { stepAddress } from "../state/address.js";
import { change } from "../state/change.js";
import { current, refresh, requestOf } from "../state/current.js";
import { page, root, words } from "../state/page.js";
import { draw, state } from "../state/store.js";
import { t } from "../state/words.js";
import { fillEdits } from "../views/text.js";

export function buildLesson() {
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
        element("button", name, {
          type: "button",
          id: `scene-${i}`,
          className: SHORT.has(SCENES[i]?.id) ? "short" : "",
          onclick: () => visit(i),
        }),
      );
      return item;
    }),
  );
  $("scene-back").onclick = () => visit(state.scene - 1);
  $("scene-next").onclick = () => visit(state.scene + 1);
  $("sheets-print").onclick = printSheets;
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
export function drawStage() {
  const scene = page.lesson ? SCENES[state.scene] : null;
  const calm = Boolean(scene) && !state.explore && !state.ask;
  root.dataset.scene = scene?.id ?? "";
  root.toggleAttribute("data-calm", calm);
  for (const id of SHOWN_ONLY) {
    $(id).inert = calm;
  }
  if (page.lesson) {
    $("explore").setAttribute("aria-pressed", !calm);
    if (drawStage.calm !== calm) {
      $("scene-list").open = !calm; // the reader may open it, too
    }
    drawStage.calm = calm;
  }
}

/** @type {boolean | null} */
drawStage.calm = null;

/**
 * Opens a scene, or the end after the last one. The page is set to the scene's state, whatever the
 * reader did before.
 * @param {number} scene
 */
export async function enter(scene) {
  judge.turn = {}; // cancels the judging of the previous scene
  /** @param {string} title */
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
  if (then) {
    then();
    draw();
  }
  beginWith("scene-title");
}

/**
 * Opens a scene as a step of its own: Back in the browser returns to the scene before.
 * @param {number} scene
 */
function visit(scene) {
  stepAddress();
  $("scene-list").open = !drawStage.calm;
  return enter(scene);
}

/**
 * Performs the scene's action. After the door of a question, it first returns to the beginning of
 * the scene.
 */
export async function act() {
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
  showWithVerdict(SCENES[scene]);
  if (!$("scene-act").checkVisibility()) {
    $("scene-result").focus({ preventScroll: true }); // the button has gone
  }
}

/**
 * Scrolls to the verdict. In a wide window the prediction, the act and the verdict fit it together.
 * In a narrow one the stage is pinned below the verdict, at the picture that it speaks of.
 * @param {Scene} scene
 */
function showWithVerdict({ picture }) {
  const isNarrow = matchMedia("(max-width: 999px)").matches;
  $(isNarrow ? "scene-result" : "scene-predict").scrollIntoView({ block: "start" });
  const stage = $("page").querySelector("main");
  const figure = picture && isNarrow ? $(picture) : null;
  if (figure) {
    stage.scrollTop += figure.getBoundingClientRect().top - stage.getBoundingClientRect().top - 24;
  }
}

/** Applies a state that the article has set. */
export async function take() {
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
export function drawLesson() {
  if (!page.lesson) {
    return;
  }
  drawSwitches();
  const scene = SCENES[state.scene];
  $("scene").hidden = !scene;
  $("ending").hidden = Boolean(scene);
  drawSceneNumbers();
  if (!scene) {
    drawEnding(visit);
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
/** @type {any} */
drawLesson.written = "";

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
    /** @param {any} event */
    onclick: (event) => {
      event.preventDefault();
      change({ language: other });
    },
  });
  $("other-scenes").replaceChildren(...rich(t("lesson.others")));
}
/** @type {any} */
drawSwitches.language = "";

/**
 * Writes the texts of a scene that are visible before the reader acts.
 * @param {Scene} scene
 */
function writeScene(scene) {
  /** @param {string} key */
  const say = (key) => t(`lesson.${scene.id}.${key}`, amounts());
  /** @param {string} key */
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
    ...paragraphs.map((/** @type {any} */ text) => {
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
  $("scene-count").textContent =
    state.scene < SCENE_COUNT
      ? t("lesson.number", { scene: state.scene + 1, scenes: SCENE_COUNT })
      : t("lesson.end.title");
  $("scene-back").disabled = state.scene === 0;
  $("scene-next").hidden = state.scene === SCENE_COUNT;
}

/**
 * Shows what the page may say about the current state. Only the newest state is shown.
 * @param {Scene} scene
 */
export async function judge(scene) {
  const turn = (judge.turn = {});
  const { may, changed } = standing(scene);
  /** @type {any} */
  let found = null;
  /** @type {any} */
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
  const mayDraw = isVerdict || (found && (figure?.choices().length ?? 0) > 0);
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
    drawFigure(/** @type {Figure} */ (figure));
  }
}
/** @type {any} */
judge.turn = {};
/** @type {any} */
judge.latest = null;
/** @type {any} */
judge.error = null;

/** Waits for the newest judgment: another may begin while one is awaited. */
export async function judged() {
  let latest;
  do {
    ({ latest } = judge);
    await latest;
  } while (latest !== judge.latest);
}

/**
 * Returns what the page has to say: the measurements of the verdict, once all experiments are
 * complete, or those of any text.
 * @param {Scene} scene
 * @param {any} may
 */
export async function measured(scene, may) {
  const own = current.shown;
  const isOpen = () => SCENES[state.scene] === scene;
  scene.before ??= current.live.compute(requestOf(firstState(scene)));
  const before = await scene.before;
  if (may === "changed") {
    return measuredAnyway(scene, before, own);
  }
  const experiments = scene.experiments?.() ?? [];
  conduct(experiments, isOpen);
  if (!experiments.every(({ complete }) => complete)) {
    return null;
  }
  scene.figure?.begin?.(before, own, isOpen);
  return scene.measure(before, own);
}

/**
 * Runs experiments one after the other.
 * @param {any[]} experiments
 * @param {() => boolean} isOpen
 */
async function conduct(experiments, isOpen) {
  for (const experiment of experiments) {
    await experiment.begin(isOpen);
  }
}
