// Texts of the article: words of the trade are explained when they are tapped, and commands are set as code and can be copied.

/** The forms of all terms in the reader's language, the longest first, with the term that each belongs to. */
function termForms() {
  const { language } = state;
  termForms.known ??= {};
  termForms.known[language] ??= Object.entries(page.lesson.terms)
    .flatMap(([name, term]) => term[language].forms.map((form) => [form, name]))
    .sort(([a], [b]) => b.length - a.length);
  return termForms.known[language];
}

/**
 * The nodes of a text: `commands` between backticks as code, and each term, where it comes first, as a button.
 * @param seen the names of terms that were marked before in the same passage.
 */
function rich(text, seen = new Set()) {
  return text
    .split("`")
    .flatMap((part, i) => (i % 2 ? [commandNode(part)] : termNodes(part, seen)))
    .filter((node) => node !== "");
}

function termNodes(text, seen) {
  const forms = termForms();
  const edge = state.language === "en" ? "\\b" : "";
  const found = new RegExp(`${edge}(${forms.map(([form]) => form).join("|")})${edge}`, "giu");
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(found)) {
    const name = forms.find(([form]) => form.toLowerCase() === match[0].toLowerCase())[1];
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

function termNode(text, name) {
  const node = element("button", text, { type: "button", className: "term" });
  node.setAttribute("aria-expanded", false);
  node.onclick = () => explain(node, name);
  return node;
}

/** Shows the sentence that explains a term below its paragraph, or takes it away again. */
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
  const said = page.lesson.terms[name][state.language].say;
  const note = element("p", said, { className: "explained" });
  note.setAttribute("role", "note");
  block.after(note);
}

/** A command or a line of code, which never breaks inside an option, and a button that copies it. */
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
