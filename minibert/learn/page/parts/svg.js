// Drawings as SVG.

// Takes the SVG namespace from the parser, so that the page contains no web address.
const drawing = document.createElement("template");
drawing.innerHTML = "<svg></svg>";

const NAMESPACE = drawing.content.firstElementChild?.namespaceURI ?? "";

/**
 * @param {string} kind
 * @param {any} [attributes]
 */
export const svg = (kind, attributes = {}) => {
  const node = document.createElementNS(NAMESPACE, kind);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  return node;
};

/**
 * @param {any} node
 * @param {any} attributes
 */
export const moveTo = (node, attributes) => {
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
};
