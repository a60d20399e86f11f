// What is chosen in the open part of the strip.

import { state } from "../../state/store.js";
import { RIVER_PARTS } from "../strip/model-parts.js";

/** @type {Record<string, any>} */
export const stage = { head: 0, key: 0, rows: new Map(), cursors: {}, drawn: "", figures: [] };

/**
 * Returns the layer, head, token and key that are shown: those of the open part, if there is one.
 * @returns {{layer: number, head: number, token: number, key: number}}
 */
export const viewed = () =>
  state.part < 0
    ? state
    : {
        head: stage.head,
        key: stage.key,
        token: state.token,
        layer: RIVER_PARTS[state.part].layer,
      };
