// Elements of the page. Text from outside enters only as textContent or as text drawn on a canvas.

/** @type {(id: string) => any} The element with an id, which the page has. */
export const $ = (id) => document.getElementById(id);

/**
 * @param {string} kind
 * @param {any} [text]
 * @param {any} [properties]
 */
export function element(kind, text = "", properties = {}) {
  return Object.assign(document.createElement(kind), { textContent: text, ...properties });
}

/**
 * Sets the text of an element. Setting the same text again would cause a layout.
 * @param {any} item
 * @param {string} text
 */
export function setText(item, text) {
  if (item.textContent !== text) {
    item.textContent = text;
  }
}

/** @param {number} share */
export function bar(share) {
  const span = element("span", "", { className: "bar" });
  span.style.setProperty("--p", share);
  return span;
}

/**
 * Highlights one row of a table.
 * @param {any} table
 * @param {any} chosen
 */
export function mark(table, chosen) {
  const rows = table.tBodies[0].rows;
  for (let i = 0; i < rows.length; i++) {
    rows[i].classList.toggle("on", i === chosen);
  }
}

/** @type {(name: string) => NodeListOf<any>} the buttons that set a part of the state */
export const buttonsOf = (name) => document.querySelectorAll(`button[data-${name}]`);
