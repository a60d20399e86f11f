// A faster `linear`, with the kernel in kernel.js. The parameters of a model lie in the memory of
// the kernel. Where the browser has no WebAssembly with SIMD, bert.js multiplies by itself.

import { KERNEL } from "./kernel.js";
import { tensor } from "./tensor.js";

const ROWS = 40; // rows of the largest output, that of the vocabulary, for which there is room

const PAGE_OF_MEMORY = 65536; // bytes

export class Product {
  /** @type {WebAssembly.Module | undefined} */
  static module;

  /**
   * Returns a product with room for a model's parameters, or null where it is not supported.
   * @param {[string, number[]][]} parameters
   */
  static for(parameters) {
    const lengths = parameters.map(([, shape]) => shape.reduce((a, b) => a * b, 1));
    const scratch =
      ROWS * Math.max(...parameters.map(([, shape]) => shape[0] + shape[shape.length - 1]));
    try {
      Product.module ??= new WebAssembly.Module(
        Uint8Array.from(atob(KERNEL), (letter) => letter.charCodeAt(0)),
      );
      return new Product(scratch, 4 * lengths.length + lengths.reduce((a, b) => a + b));
    } catch {
      return null;
    }
  }

  /**
   * @param {number} scratch
   * @param {number} room
   */
  constructor(scratch, room) {
    const bytes = 4 * (scratch + room + 4);
    this.memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_OF_MEMORY) });
    this.numbers = new Float32Array(this.memory.buffer);
    const imports = { page: { memory: this.memory } };
    /** @type {any} */
    this.run = new WebAssembly.Instance(
      /** @type {WebAssembly.Module} */ (Product.module),
      imports,
    ).exports.multiply;
    this.scratch = scratch; // numbers for the input and the output of a product
    this.next = 4 * Math.ceil(scratch / 4);
  }

  /**
   * Returns an array for a parameter, which begins at a multiple of 16 bytes.
   * @param {number} length
   */
  allocate(length) {
    const from = this.next;
    this.next += 4 * Math.ceil(length / 4);
    return this.numbers.subarray(from, from + length);
  }

  /**
   * Computes x W^T + b as `linear` in bert.js does, or null if it does not fit.
   * @param {Tensor} x
   * @param {Tensor} weight
   * @param {Tensor | undefined} bias
   */
  multiply(x, weight, bias) {
    const [seq, size] = x.shape;
    const [out] = weight.shape;
    const space = seq * size + out + seq * out;
    if (size % 4 || space > this.scratch || weight.data.buffer !== this.memory.buffer) {
      return null;
    }
    const biasAt = seq * size;
    const result = biasAt + out;
    this.numbers.set(x.data, 0);
    if (bias) {
      this.numbers.set(bias.data, biasAt);
    } else {
      this.numbers.fill(0, biasAt, result);
    }
    this.run(0, weight.data.byteOffset, 4 * biasAt, 4 * result, seq, size, out);
    return tensor([seq, out], this.numbers.slice(result, result + seq * out));
  }
}
