// All parts of the model, in the order of computation.

import { sizes } from "../../state/page.js";

export const LAYER_PARTS = ["attention", "add", "ff", "add2"];

/**
 * All parts of the model in order of computation: name, layer, tab, and the element in the tab to
 * scroll to.
 */
/** @type {{name: string, section: string, layer?: any, target?: any}[]} */
export const RIVER_PARTS = [
  { name: "pieces", section: "text" },
  { name: "embeddings", section: "embeddings" },
  ...Array.from({ length: sizes.layers }, (_, layer) => [
    { name: "attention", layer, section: "attention" },
    { name: "add", layer, section: "head", target: "head-mix" },
    { name: "ff", layer, section: "head", target: "head-widen" },
    { name: "add2", layer, section: "head", target: "head-narrow" },
  ]).flat(),
  { name: "pooler", section: "pooler" },
  { name: "predictions", section: "predictions" },
];

/**
 * @param {string} name
 * @param {number} [layer]
 */
export const partIndex = (name, layer) =>
  RIVER_PARTS.findIndex((part) => part.name === name && part.layer === layer);
