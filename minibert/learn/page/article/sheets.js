// Sheets for a teacher, one for each scene: the question, what students expect wrongly, what to
// discuss, and a link that opens the scene. They are printed from the texts of the scenes.

import { amounts } from "./amounts.js";
import { SCENES } from "./order.js";
import { $, element } from "../parts/elements.js";
import { root, words } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

/** Prints a sheet for each scene, instead of the page. */
export function printSheets() {
  $("sheets").replaceChildren(...[...SCENES.keys()].map(sheetOf));
  root.dataset.sheets = "";
  window.onafterprint = () => {
    delete root.dataset.sheets;
    $("sheets").replaceChildren();
  };
  window.print();
}

/**
 * Returns the sheet of a scene.
 * @param {number} number of the scene.
 */
function sheetOf(number) {
  const { id } = SCENES[number];
  const { scene } = state;
  state.scene = number; // whose amounts the texts mention
  const values = amounts();
  state.scene = scene;
  /** @param {string} key */
  const say = (key) => t(`lesson.${id}.${key}`, values);
  const address = `${location.href.split("#")[0]}#scene=${id}`;
  const choices = element("ul");
  for (let i = 0; words.en[`lesson.${id}.choice.${i}`]; i++) {
    const choice = element("li", say(`choice.${i}`));
    choice.append(element("span", "", { className: "count" })); // for the number of hands
    choices.append(choice);
  }
  const sheet = element("article");
  sheet.append(
    element("h2", `${number + 1}. ${say("title")}`),
    element("h3", t("lesson.predict")),
    element("p", say("ask")),
    choices,
    element("h3", t("lesson.sheets.expect")),
    element("p", say("teach.expect")),
    element("h3", t("lesson.sheets.discuss")),
    element("p", say("teach.discuss")),
    element("a", address, { href: address }),
  );
  return sheet;
}
