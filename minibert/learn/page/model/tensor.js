// A tensor is {shape, data}, with its values in row-major order in a Float32Array.

/**
 * @param {number[]} shape
 * @param {any} [data] a typed array
 */
export const tensor = (shape, data = new Float32Array(shape.reduce((a, b) => a * b, 1))) => ({
  shape,
  data,
});
