// Elements of the page. Text from outside enters only as textContent or as text drawn on a canvas.

export const $ = (id) => document.getElementById(id);

export function element(kind, text = "", properties = {}) {
  return Object.assign(document.createElement(kind), { textContent: text, ...properties });
}

export function bar(share) {
  const span = element("span", "", { className: "bar" });
  span.style.setProperty("--p", share);
  return span;
}

/** Highlights one row of a table. */
export function mark(table, chosen) {
  const rows = table.tBodies[0].rows;
  for (let i = 0; i < rows.length; i++) {
    rows[i].classList.toggle("on", i === chosen);
  }
}

export const buttonsOf = (name) => document.querySelectorAll(`button[data-${name}]`);
