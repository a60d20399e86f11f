// What Python wrote into the page.

/** @type {any} what build.py wrote */
export const page = JSON.parse(document.getElementById("data")?.textContent ?? "");

export const sizes = page.sizes;
export const words = page.words;

export const root = document.documentElement;

export const SECTIONS = [
  "text",
  "embeddings",
  "attention",
  "head",
  "hidden",
  "compare",
  "pooler",
  "predictions",
  ...(page.run ? ["training"] : []),
];

export const SPECIAL = /^\[(CLS|SEP|PAD|UNK|MASK)\]$/;
