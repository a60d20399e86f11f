// Plays the animated head: a query is multiplied with every key, softmax turns scores into
// probabilities, and the weighted values are added up.

import { clamp } from "../../model/ranges.js";
import { $, element } from "../../parts/elements.js";
import { signedLegend } from "../../parts/legend.js";
import { isStill } from "../../parts/motion.js";
import { remember } from "../../state/address.js";
import { current, requested, same } from "../../state/current.js";
import { announce, state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { filmMap, followFilm, seeFilm } from "./film-picture.js";
import { filmNumbers } from "./film-rows.js";
import { BY_TOKEN, FILM_STEPS, between, film, filmEnds, filmStep } from "./film-time.js";
import { ORIGINS, sayFilm, sayOrigin } from "./film-words.js";

const FRAME = 400; // milliseconds

const PRODUCT = 2800; // milliseconds for rows that are made column by column

const LONGEST = 6000; // milliseconds for all tokens of a long text together

const REST = 2400; // milliseconds after a step, to read its sentence

/**
 * Begins what the reader asked of the picture. On a narrow page an answer of “Ask” hears of it and
 * folds, which gives the picture its room.
 */
function beginFilm() {
  stopFilm();
  announce("film");
  fitFilm();
  seeFilm();
}

/**
 * Animates to a time within some milliseconds, or jumps there if the reader prefers reduced motion.
 * @param {number} time
 * @param {number} duration
 * @param {() => void} [then]
 */
function runTo(time, duration, then = () => {}) {
  cancelAnimationFrame(film.frame);
  const from = film.time;
  const begin = performance.now();
  const finish = () => {
    film.held = null;
    then();
    drawFilm();
    followFilm();
  };
  if (isStill()) {
    film.time = time;
    finish();
    return;
  }
  /** @param {number} now */
  const frame = (now) => {
    if (state.section !== "head" || current.running) {
      stopFilm();
      return;
    }
    const part = clamp((now - begin) / duration, 0, 1);
    film.time = part < 1 ? between(from, time, part) : time;
    if (part < 1) {
      drawFilm();
      followFilm();
      film.frame = requestAnimationFrame(frame);
    } else {
      finish();
    }
  };
  film.frame = requestAnimationFrame(frame);
}

/**
 * Returns the milliseconds from now to a time in the same step.
 * @param {number} time
 * @param {string} step
 */
function durationTo(time, step) {
  const several = BY_TOKEN.includes(step) ? Math.min(FRAME, LONGEST / current.count) : FRAME;
  return (time - film.time) * (step in ORIGINS ? PRODUCT : several);
}

/**
 * Plays the current step to its end, or the next step if it has ended.
 * @param {() => void} [then]
 */
function nextStep(then) {
  const ends = filmEnds();
  const step = ends.findIndex((end) => end > film.time);
  runTo(ends[step], durationTo(ends[step], FILM_STEPS[step]), then);
}

function stopFilm() {
  cancelAnimationFrame(film.frame);
  clearTimeout(film.resting);
  Object.assign(film, { playing: false, held: null });
}

/**
 * Plays to the end, from the beginning if the end was reached or nothing was played yet. Pauses if it
 * is playing.
 */
function playFilm() {
  if (film.playing) {
    stopFilm();
    drawFilm();
    return;
  }
  beginFilm();
  film.playing = true;
  const last = filmEnds().at(-1) ?? 0;
  if (film.time === last || (film.time === 1 && !isStill())) {
    film.time = 0;
  }
  const on = () => {
    film.playing = film.playing && film.time < last && state.section === "head";
    if (film.playing) {
      nextStep(() => {
        film.playing = film.time < last;
        film.resting = setTimeout(on, REST);
      });
    }
  };
  on();
}

export function buildFilm() {
  $("film-play").onclick = playFilm;
  $("film-next").onclick = () => {
    beginFilm();
    nextStep();
  };
  $("film-back").onclick = () => {
    stopFilm();
    runTo(filmEnds().findLast((end) => end < film.time) ?? 1, FRAME);
  };
  $("film-time").oninput = () => {
    stopFilm();
    film.held = Number($("film-time").value);
    runTo(film.held, FRAME);
  };
  $("film-map").addEventListener("focus", () => filmMap.draw());
  $("film-map").addEventListener("blur", () => filmMap.draw());
}

/** Draws the head at the current time. */
export function drawFilm() {
  const ends = filmEnds();
  const step = filmStep();
  if (state.step !== step) {
    state.step = step;
    remember();
  }
  filmMap.draw();
  sayFilm();
  sayOrigin();
  Object.assign($("film-time"), {
    max: ends.at(-1),
    value: film.held ?? Math.max(1, Math.round(film.time)),
  });
  const over = film.time === ends.at(-1);
  let play = over ? "film.again" : "training.play";
  if (film.playing) {
    play = "film.pause";
  }
  $("film-play").textContent = t(play);
  $("film-back").disabled = film.time <= 1;
  $("film-next").disabled = over;
}

/**
 * Draws the head after a choice made elsewhere, such as another step or a text of another length.
 */
export function fitFilm() {
  const ends = filmEnds();
  if (film.count !== current.count || state.step !== filmStep()) {
    stopFilm();
    film.time = ends[state.step];
  }
  film.count = current.count;
  drawFilm();
  signedLegend("film-legend", filmNumbers().most);
  $("film-legend").append(element("span", t("film.scale")));
}

/** Shows the picture to whoever comes through a door of “Ask”, which takes its room from the page. */
export function openFilm() {
  if (film.door === state.ask || !same(current.shown.request, requested())) {
    return; // The numbers of the door are still being computed.
  }
  film.door = state.ask;
  if (state.ask) {
    requestAnimationFrame(() => {
      drawFilm(); // the answer has its place now
      seeFilm();
    });
  }
}
