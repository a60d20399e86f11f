// The panel "Ask".

import { enter } from "../article/lesson.js";
import { SCENES } from "../article/order.js";
import { askedQuestion, forgetWork, leaveDoor, openDoor } from "./doors.js";
import { languageOf, modelLanguage, questions } from "./entries.js";
import {
  NEAREST,
  isAnswer,
  middleOf,
  prepareSearch,
  rankByLetters,
  rankByVectors,
} from "./search.js";
import { $, element } from "../parts/elements.js";
import { change } from "../state/change.js";
import { current } from "../state/current.js";
import { page } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";
import { openFilm } from "../views/head/film.js";

export function buildAsk() {
  if (!current.live || !questions.length) {
    $("ask").remove();
    $("ask-open").remove();
    return;
  }
  $("ask-open").onclick = () => {
    if ($("ask").hidden) {
      openAsk();
    } else {
      closeAsk();
    }
  };
  $("ask-close").onclick = closeAsk;
  $("ask-return").hidden = !page.lesson;
  $("ask-return").onclick = closeAsk;
  $("ask-fold").onclick = () => foldAnswer(!$("ask").hasAttribute("data-folded"));
  $("ask-other").onclick = async () => {
    await leaveDoor();
    $("ask-box").focus();
  };
  $("ask-box").oninput = () => {
    change({ ask: "" });
    listQuestions();
  };
  $("ask-whole").onclick = () => {
    $("ask-box").value = "";
    listQuestions();
    $("ask-box").focus();
  };
  $("ask-box").onkeydown = (/** @type {any} */ event) => {
    const isSearching = $("ask-box").value.trim() && $("ask-list").dataset.by === "all";
    if (event.key === "Enter" && !isSearching) {
      $("ask-list").querySelector("button")?.click();
    }
  };
  $("ask").addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key === "Escape") {
      closeAsk();
    }
  });
}

export function openAsk() {
  $("ask").hidden = false;
  drawAsk();
  listQuestions();
  $("ask-box").focus();
  prepareSearch(modelLanguage())
    .then(() => middleOf())
    .catch(() => {}); // a question tries again
}

export async function closeAsk() {
  const isBeside = page.lesson && askedQuestion();
  $("ask").hidden = true;
  await leaveDoor();
  if (!isBeside) {
    $("ask-open").focus(); // otherwise the restarted scene has the focus
  }
}

/**
 * Lists all questions, or those nearest to the typed text. Trigrams and terms rank them at once,
 * sentence vectors as soon as they are ready.
 */
async function listQuestions() {
  const text = $("ask-box").value.trim();
  listQuestions.text = text;
  if (!text) {
    fillQuestions("all", questions, state.language);
    return;
  }
  const isOld = () => listQuestions.text !== text;
  const language = languageOf(text);
  await prepareSearch(language);
  if (isOld()) {
    return;
  }
  fillNearest("letters", rankByLetters(text), language);
  if (language !== modelLanguage()) {
    return;
  }
  // Wait for a pause in typing, then use only the newest text.
  await new Promise((wait) => setTimeout(wait, 120));
  const found = isOld() ? null : await rankByVectors(text, isOld).catch(() => null);
  if (found && !isOld()) {
    fillNearest("vectors", found, language);
  }
}
/** @type {any} */
listQuestions.text = "";

/**
 * Lists the nearest entries, and says so if not even the nearest one fits.
 * @param {any} by
 * @param {any[]} found
 * @param {string} language
 */
function fillNearest(by, found, language) {
  const nearest = found.map(([entry]) => entry).filter(({ elsewhere }) => !elsewhere);
  fillQuestions(by, nearest.slice(0, NEAREST), language, isAnswer(found, by));
}

/**
 * @param {any} by
 * @param {any[]} list
 * @param {string} language
 * @param {any} [fits]
 */
function fillQuestions(by, list, language, fits = true) {
  $("ask-list").dataset.by = by;
  $("ask-list").toggleAttribute("data-far", !fits);
  $("ask-say").textContent = t(fits ? `ask.${by}` : "ask.none", { count: list.length });
  $("ask-whole").hidden = list.length === questions.length;
  $("ask-whole").textContent = t("ask.whole", { count: questions.length });
  $("ask-list").replaceChildren(
    ...list.map((one) => {
      const item = element("li");
      const button = element("button", one[language].question, { type: "button", lang: language });
      item.append(button);
      button.onclick = () => (one.isTerm ? unfoldTerm(item, button, one[language]) : openDoor(one));
      if (one.isTerm) {
        button.setAttribute("aria-expanded", "false");
      }
      return item;
    }),
  );
}

/**
 * Shows or hides the explanation of a term below its button.
 * @param {any} item
 * @param {any} button
 * @param {{answer: string}} of2
 */
function unfoldTerm(item, button, { answer }) {
  const isOpen = item.querySelector("p") !== null;
  button.setAttribute("aria-expanded", !isOpen);
  if (isOpen) {
    item.querySelector("p").remove();
  } else {
    item.append(element("p", answer));
  }
}

export function drawAsk() {
  if (!$("ask")) {
    return;
  }
  const question = askedQuestion();
  if (question) {
    $("ask").hidden = false;
  }
  $("ask-open").setAttribute("aria-expanded", !$("ask").hidden);
  const isChosenHere = question && $("ask-choose").contains(document.activeElement);
  $("ask-choose").hidden = Boolean(question);
  $("ask-answer").hidden = !question;
  $("ask-box").placeholder = t("ask.placeholder");
  if (drawAsk.language !== state.language) {
    drawAsk.language = state.language;
    if (!$("ask").hidden) {
      listQuestions();
    }
  }
  if (question) {
    const { question: title, answer } = question[state.language];
    $("ask-title").textContent = title;
    $("ask-text").textContent = answer;
    offerScene(sceneOf(question));
    if (drawAsk.answer !== answer) {
      drawAsk.answer = answer;
      foldAnswer(false);
    }
  }
  if (isChosenHere) {
    $("ask-title").focus(); // the list that had the focus is hidden
  }
  if (state.section === "head" && !$("film").hidden) {
    openFilm();
  }
}
/** @type {any} */
drawAsk.language = "";
/** @type {any} */
drawAsk.answer = "";

/**
 * Returns the index of the scene that shows the answer to a question, or -1.
 * @param {{scene: any}} of
 */
function sceneOf({ scene }) {
  const places = page.lesson
    ? scene.map((/** @type {any} */ id) => SCENES.findIndex((own) => own.id === id))
    : [];
  return places.find((/** @type {any} */ place) => place >= 0) ?? -1;
}

/**
 * Shows a button that leads to a scene.
 * @param {number} place
 */
function offerScene(place) {
  const button = $("ask-scene");
  button.hidden = place < 0;
  if (place >= 0) {
    const title = t(`lesson.${SCENES[place].id}.title`);
    button.textContent = t("ask.scene", { number: place + 1, title });
    button.onclick = () => {
      $("ask").hidden = true;
      forgetWork();
      enter(place);
    };
  }
}

/**
 * Folds the answer, or unfolds it. Only a narrow page folds it, as the style sheet says.
 * @param {boolean} folded
 */
export function foldAnswer(folded) {
  $("ask").toggleAttribute("data-folded", folded);
  $("ask-fold").textContent = folded ? "▾" : "▴";
  $("ask-fold").setAttribute("aria-expanded", !folded);
}
