// Builds the page and draws it. Every action changes the state, and the page hears of it here.

import { readLesson } from "./article/contents.js";
import { buildLesson, drawLesson, drawStage, enter } from "./article/lesson.js";
import { SCENES, SCENE_COUNT } from "./article/order.js";
import { throughDoor } from "./ask/doors.js";
import { readEntries } from "./ask/entries.js";
import { buildAsk, drawAsk, foldAnswer } from "./ask/panel.js";
import { Live } from "./model/live.js";
import { develop } from "./model/numbers.js";
import { clamp } from "./model/ranges.js";
import { $ } from "./parts/elements.js";
import { tell } from "./parts/readout.js";
import { NAMES, recall, remember } from "./state/address.js";
import { interestingHead } from "./state/analyses.js";
import { run } from "./state/console.js";
import { current, refresh, requested, same, settings, show } from "./state/current.js";
import { page, root, sizes } from "./state/page.js";
import { draw, listen, state } from "./state/store.js";
import { buildAttention, drawAttention } from "./views/attention.js";
import { buildCompare, drawCompare, fillCompared } from "./views/compare/compare.js";
import { compareTexts } from "./views/compare/texts.js";
import { EMBEDDINGS, drawEmbeddings } from "./views/embeddings.js";
import { buildFrame, buildTokens, drawFrame, hideOne, revealChosen } from "./views/frame.js";
import { FILM_STEPS } from "./views/head/film-time.js";
import { buildHead, buildHeadChoices, drawHead } from "./views/head/head.js";
import { buildHidden, drawHidden } from "./views/hidden.js";
import { buildStage, drawPart } from "./views/part/part.js";
import { drawPooler } from "./views/pooler.js";
import { drawPredictions } from "./views/predictions.js";
import { RIVER_PARTS } from "./views/strip/model-parts.js";
import { buildRiver, drawRiver } from "./views/strip/strip.js";
import { buildText, drawText, fillEdits } from "./views/text.js";
import { buildTheme, showTheme } from "./views/theme.js";
import { STOPS, buildTour, drawTour, goTo } from "./views/tour.js";
import { buildTraining, drawTraining } from "./views/training/training.js";

/** @type {Record<string, any>} */
const DRAW = {
  text: drawText,
  embeddings: drawEmbeddings,
  attention: drawAttention,
  head: drawHead,
  hidden: drawHidden,
  compare: drawCompare,
  pooler: drawPooler,
  predictions: drawPredictions,
  training: drawTraining,
};

/** Draws the page. */
function drawPage() {
  drawStage();
  if (current.running && Math.max(state.token, state.key) >= current.count) {
    return; // The tokens are still being computed. The page is drawn when they are ready.
  }
  drawFrame();
  drawRiver();
  drawPart();
  if (state.part < 0) {
    DRAW[state.section]();
  }
  drawTour();
  drawLesson();
  drawAsk();
  revealChosen();
  remember();
}

/** Rebuilds everything that depends on the tokens. */
function rebuildPage() {
  const last = current.count - 1;
  Object.assign(state, { token: clamp(state.token, 0, last), key: clamp(state.key, 0, last) });
  buildTokens();
  buildText();
  buildHeadChoices();
  draw();
}

/**
 * Prepares the page for changes of the state: the description of a number belongs to the old one.
 * @param {{section: string}} of
 */
function beforeChange({ section }) {
  tell("");
  if (section && section !== state.section) {
    $("page").querySelector("main").scrollTop = 0;
  }
}

/**
 * Offers a token to predict whenever the predictions are opened.
 * @param {{section: string}} of
 */
function afterChange({ section }) {
  if (section === "predictions") {
    hideOne();
  }
}

/** Lets the keyboard skip the strip, to the article or to the open tab. */
function buildSkip() {
  // A link would change the address, which holds the state.
  $("skip").onclick = () => {
    const article = state.scene < SCENE_COUNT ? "scene-title" : "ending-title";
    $(page.lesson ? article : `tab-${state.section}`).focus();
  };
}

/** Returns the largest value of each number in the address. */
const limits = () => ({
  token: 127,
  key: 127,
  layer: sizes.layers - 1,
  head: sizes.heads - 1,
  step: FILM_STEPS.length - 1,
  depth: sizes.layers,
  threshold: 0.5,
  row: EMBEDDINGS.length - 1,
  tour: STOPS.length - 1,
  part: current.live ? RIVER_PARTS.length - 1 : -1,
  scene: SCENE_COUNT, // the end follows the last scene
  guess: 2,
  snapshot: (page.run?.snapshots.length ?? 1) - 1,
});

async function start() {
  const request = requested();
  await readLesson();
  if (page.live) {
    try {
      current.live = await Live.start(page.live, settings);
      await readEntries();
    } catch (error) {
      state.trouble = /** @type {any} */ (error).message;
    }
  }
  if (current.live && !page.complete) {
    current.photograph = await current.live.compute(request);
  } else {
    current.photograph = { ...page, request, steps: await develop(page.arrays), live: false };
  }
  show(current.photograph);
  root.classList.toggle("live", Boolean(current.live));
  const { layer, head, token, key } = interestingHead();
  const masked = current.tokens.findIndex((token) => token.piece === "[MASK]");
  Object.assign(state, { layer, head, depth: layer + 1, token: masked >= 0 ? masked : token, key });
  listen("change", beforeChange);
  listen("changed", afterChange);
  listen("draw", drawPage);
  listen("text", rebuildPage);
  listen("measured", drawLesson);
  listen("film", () => foldAnswer(true));
  if (page.lesson) {
    NAMES.scene = [...SCENES.map(({ id }) => id), "end"];
  }
  const said = recall(throughDoor, limits());
  const known = said.has("section");
  remember.address = location.hash;
  showTheme();
  for (const build of [
    buildSkip,
    buildFrame,
    buildTheme,
    buildRiver,
    buildStage,
    buildText,
    buildAttention,
    buildHead,
    buildHidden,
    buildCompare,
    buildTraining,
    buildTour,
    buildLesson,
    buildAsk,
  ]) {
    build();
  }
  if (page.lesson && !known) {
    await enter(state.scene);
  } else if (current.live && known && !same(requested(), request)) {
    await refresh();
  } else {
    rebuildPage();
  }
  if (current.live && state.other) {
    await compareTexts();
  }
  if (state.tour >= 0) {
    goTo(state.tour);
  }
  root.dataset.ready = "yes";
  window.onhashchange = async () => {
    // The reader edited the address. The page's own updates trigger no event.
    remember.address = location.hash;
    const said = recall(throughDoor, limits());
    showTheme();
    if (page.lesson && said.has("scene") && !said.has("section")) {
      await enter(state.scene); // as by its number
      return;
    }
    fillEdits();
    fillCompared();
    if (current.live) {
      await refresh();
    } else {
      rebuildPage();
    }
  };
}
Object.assign(window, { minibert: { run } });
start();
