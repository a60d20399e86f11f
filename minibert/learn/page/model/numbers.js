// The values of the steps: as the page packs them, and as it writes them.

import { inflate } from "./inflate.js";

/** The values of one step, without the batch axis. `text` formats a value as Python prints it. */
export class Numbers {
  /** @type {number | undefined} what `typical` returned */
  known;

  /**
   * @param {Tensor} tensor
   * @param {number | null} decimals of the integers in `data`, or null for floats.
   */
  constructor({ shape, data }, decimals = null) {
    this.shape = shape;
    this.data = data;
    this.scale = decimals === null ? 1 : 10 ** decimals;
    this.decimals = decimals ?? 4;
  }
  /** @param {...number} at */
  index(...at) {
    return at.reduce((flat, i, axis) => flat * this.shape[axis] + i, 0);
  }
  /** @param {...number} at */
  at(...at) {
    return this.data[this.index(...at)] / this.scale;
  }
  /** @param {...number} at */
  text(...at) {
    return written(this.at(...at), this.decimals);
  }
  /**
   * Returns one row of the last axis.
   * @param {...number} at
   */
  row(...at) {
    const size = this.shape[this.shape.length - 1];
    const from = this.index(...at, 0);
    // A loop, because `Array.from` takes several times as long.
    const row = new Array(size);
    for (let i = 0; i < size; i++) {
      row[i] = this.data[from + i] / this.scale;
    }
    return row;
  }
  /**
   * Returns the 99th percentile of the absolute values. Outliers would make all others look alike.
   */
  typical() {
    if (this.known === undefined) {
      const step = Math.ceil(this.data.length / 20000);
      const sizes = new Float64Array(Math.ceil(this.data.length / step));
      for (let i = 0; i < sizes.length; i++) {
        sizes[i] = Math.abs(this.data[i * step]);
      }
      this.known = sizes.sort()[Math.floor(sizes.length * 0.99)] / this.scale || 1;
    }
    return this.known;
  }
}

/**
 * @param {number} value
 * @param {number} [decimals]
 */
export const written = (value, decimals = 4) =>
  Math.abs(value) > 1e30 ? value.toExponential(1) : value.toFixed(decimals);

/**
 * Decodes the photograph. Its arrays follow each other, as multiples of 10^-decimals, or as floats
 * where decimals is null.
 * @param {{table: any, data: any}} of
 */
export async function develop({ table, data }) {
  const buffer = await inflate(data);
  const steps = new Map();
  let start = 0;
  for (const [name, shape, decimals, bits] of table) {
    const count = shape.reduce((/** @type {any} */ a, /** @type {any} */ b) => a * b, 1);
    const bytes = buffer.slice(start, (start += (count * bits) / 8));
    /** @type {any} */
    let Numbered = bits === 16 ? Int16Array : Int32Array;
    if (decimals === null) {
      Numbered = Float32Array;
    }
    const data = new Numbered(bytes);
    steps.set(name, new Numbers({ shape, data }, decimals));
  }
  return steps;
}

/**
 * @param {Values} step
 * @param {...number} at
 * @returns {any}
 */
export const nested = (step, ...at) =>
  at.length === step.shape.length - 1
    ? step.row(...at)
    : Array.from({ length: step.shape[at.length] }, (_, i) => nested(step, ...at, i));
