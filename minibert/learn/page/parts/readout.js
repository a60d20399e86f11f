// The description of a number, and the line of Python that prints it.

import { $, element } from "./elements.js";
import { root } from "../state/page.js";
import { t } from "../state/words.js";

// What the readout shows, and the line of Python that prints it
export const told = { text: "", python: "" };

/**
 * Describes a number: in the tooltip while the mouse hovers, in the footer when it is selected.
 * @param {string} text
 * @param {any} [event]
 * @param {any} [python]
 */
export function tell(text, event = null, python = "") {
  $("tip").hidden = !event || !text;
  if (!event) {
    Object.assign(told, { text, python });
    $("readout").textContent = text;
    $("copy").hidden = !python;
    $("copy").textContent = t("copy");
    return;
  }
  $("tip").textContent = text;
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left =
    `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  const isBelow = event.clientY + box.height + 24 <= innerHeight;
  $("tip").style.top = `${event.clientY + (isBelow ? 18 : -box.height - 8)}px`;
}

/**
 * Returns a number that tells its line of Python when it is selected, or its text alone while a
 * scene shows only its own controls.
 * @param {string} text
 * @param {any} say
 */
export function numberNode(text, say) {
  return root.hasAttribute("data-calm")
    ? element("span", text)
    : element("button", text, { type: "button", onclick: say, onfocus: say });
}

export async function copyPython() {
  if (told.python) {
    await copyText(told.python);
    $("copy").textContent = t("copied");
  }
}

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard API is not permitted in some frames, so use the older method.
    const area = element("textarea", "", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
