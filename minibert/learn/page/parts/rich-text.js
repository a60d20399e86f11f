// Texts of the article. Technical terms are explained when they are tapped, and commands are
// formatted as code that can be copied.

import { element } from "./elements.js";
import { copyText } from "./readout.js";
import { page } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

/**
 * Returns the forms of all terms in the reader's language with the term of each, the longest form
 * first.
 */
function termForms() {
  const { language } = state;
  termForms.known ??= {};
  termForms.known[language] ??= Object.entries(page.terms)
    .filter(([, { quiet }]) => !quiet) // terms that only Ask explains
    .flatMap(([name, term]) => term[language].forms.map((/** @type {any} */ form) => [form, name]))
    .sort(([a], [b]) => b.length - a.length);
  return termForms.known[language];
}
/** @type {any} */
termForms.known = undefined;

/**
 * Returns the nodes of a text. Text between backticks becomes code, and the first occurrence of
 * each term a button. Where a form has another sense than its own, the text names it:
 * [weights](attention weight).
 * @param {any} [seen] the names of terms that are already marked in the same passage.
 * @param {string} text
 */
export function rich(text, seen = new Set()) {
  return text
    .split("`")
    .flatMap((part, i) => (i % 2 ? [commandNode(part)] : nodesOf(part, seen)))
    .filter((node) => node !== "");
}

const SENSE = /\[([^\]]+)\]\(([^)]+)\)/u;

/**
 * Returns the nodes of a text without code.
 * @param {string} text
 * @param {any} seen
 */
function nodesOf(text, seen) {
  const parts = text.split(SENSE); // words, a form, its sense, words, ...
  const nodes = [];
  for (let i = 0; i < parts.length; i += 3) {
    nodes.push(...termNodes(parts[i], seen));
    if (i + 1 < parts.length) {
      seen.add(parts[i + 2]);
      nodes.push(termNode(parts[i + 1], parts[i + 2]));
    }
  }
  return nodes;
}

/**
 * @param {string} text
 * @param {any} seen
 */
function termNodes(text, seen) {
  const forms = termForms();
  const [from, to] =
    state.language === "en" ? ["(?<![\\p{L}\\p{N}])", "(?![\\p{L}\\p{N}])"] : ["", ""];
  const found = new RegExp(
    `${from}(${forms.map((/** @type {any[]} */ [form]) => form).join("|")})${to}`,
    "giu",
  );
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(found)) {
    const name = forms.find(
      (/** @type {any[]} */ [form]) => form.toLowerCase() === match[0].toLowerCase(),
    )[1];
    if (seen.has(name)) {
      continue;
    }
    seen.add(name);
    nodes.push(text.slice(end, match.index), termNode(match[0], name));
    end = match.index + match[0].length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

/**
 * @param {string} text
 * @param {string} name
 */
function termNode(text, name) {
  const node = element("button", text, { type: "button", className: "term" });
  node.setAttribute("aria-expanded", false);
  node.onclick = () => explain(node, name);
  return node;
}

/**
 * Shows the explanation of a term below its paragraph, or removes it.
 * @param {any} node
 * @param {string} name
 */
function explain(node, name) {
  const block = node.closest("p, figcaption, li");
  const open = node.getAttribute("aria-expanded") === "true";
  const below = block.nextElementSibling;
  if (below?.classList.contains("explained")) {
    below.remove();
  }
  for (const other of block.querySelectorAll(".term")) {
    other.setAttribute("aria-expanded", false);
  }
  if (open) {
    return;
  }
  node.setAttribute("aria-expanded", true);
  const said = page.terms[name][state.language].say;
  const note = element("p", said, { className: "explained" });
  note.setAttribute("role", "note");
  block.after(note);
}

/**
 * Returns a command or a line of code with a button that copies it.
 * @param {string} command
 */
function commandNode(command) {
  const node = element("span", "", { className: "command" });
  const code = element("code", command);
  const copy = element("button", t("lesson.copy"), { type: "button" });
  copy.setAttribute("aria-label", `${t("lesson.copy")}: ${command}`);
  copy.onclick = async () => {
    await copyText(command);
    copy.textContent = t("copied");
  };
  node.append(code, copy);
  return node;
}
