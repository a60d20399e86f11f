// The worker of the live model. It decodes the weights once and runs the model, so that typing
// never waits.

/** Returns a model. Each row of a matrix is stored as 8-bit integers and one scale. */
async function load({ config, parameters, floats, whole }) {
  const scales = new Float32Array(await inflate(floats));
  const numbers = new Int8Array(await inflate(whole));
  const found = new Map();
  const product = Product.for(parameters);
  const place = (shape) => {
    const length = shape.reduce((a, b) => a * b, 1);
    return tensor(shape, product?.allocate(length) ?? new Float32Array(length));
  };
  let f = 0;
  let w = 0;
  for (const [name, shape] of parameters) {
    if (shape.length === 1) {
      const vector = place(shape);
      vector.data.set(scales.subarray(f, (f += shape[0])));
      found.set(name, vector);
      continue;
    }
    const [rows, columns] = shape;
    const matrix = place(shape);
    for (let r = 0; r < rows; r++) {
      const scale = scales[f++];
      for (let end = w + columns; w < end; w++) {
        matrix.data[w - end + (r + 1) * columns] = numbers[w] * scale;
      }
    }
    found.set(name, matrix);
  }
  return new Bert(config, found, product);
}

const models = new Map(); // by id: the page's model, or the snapshots of a run
onmessage = async ({ data: { id, kind, input, model } }) => {
  try {
    if (kind === "load") {
      models.set(model, load(input));
    }
    const bert = await models.get(model);
    let answer = null;
    let given = new Set(); // arrays that are given away instead of copied
    if (kind === "run") {
      answer = bert.run(input);
      given = new Set(Array.from(answer.values(), ({ data }) => data.buffer));
    }
    if (kind === "vector") {
      // Return the mean of the last states of a text without padding, weighted by token.
      const { shape, data } = [...bert.run(input)].findLast(([name]) => /^layer/.test(name))[1];
      const weights = input.weights ?? input.ids.map(() => 1);
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      answer = Array.from({ length: shape[1] }, (_, c) => {
        let sum = 0;
        weights.forEach((weight, row) => {
          sum += weight * data[row * shape[1] + c];
        });
        return sum / total;
      });
    }
    if (kind === "rows") {
      answer = bert.rows(input.name, input.rows);
    }
    if (kind === "transform") {
      const { data } = bert.logits(input.states);
      const [words] = bert.words(input.states, input.k, input.count);
      answer = {
        steps: bert.transform(input.states),
        best: words.map(([id]) => ({ id, logit: data[id] })),
      };
    }
    if (kind === "words") {
      answer = bert.words(input.states, input.k, input.count);
    }
    if (kind === "shares") {
      // Return the probability of one word, or of several, in every row of states.
      const { shape, data } = bert.logits(input.states);
      const row = (s) => data.subarray(s * shape[1], (s + 1) * shape[1]);
      answer = Array.from({ length: shape[0] }, (_, s) => {
        softmax(row(s));
        return Array.isArray(input.word)
          ? input.word.map((word) => row(s)[word])
          : row(s)[input.word];
      });
    }
    postMessage({ id, answer }, [...given]);
  } catch (error) {
    postMessage({ id, error: String(error) });
  }
};
