// A tensor is {shape, data}, with its values in row-major order in a Float32Array.

/**
 * @param {any} shape
 * @param {any} [data]
 */
export const tensor = (
  shape,
  data = new Float32Array(shape.reduce((/** @type {any} */ a, /** @type {any} */ b) => a * b, 1)),
) => ({
  shape,
  data,
});
