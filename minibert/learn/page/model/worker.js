// The worker of the live model: it runs the model, so that typing never waits.

import { answerOf } from "./answers.js";

onmessage = async ({ data: { id, ...question } }) => {
  try {
    const answer = await answerOf(question);
    // arrays that are given away instead of copied
    const steps = question.kind === "run" ? [...answer.values()] : [];
    postMessage({ id, answer }, [...new Set(steps.map(({ data }) => data.buffer))]);
  } catch (error) {
    postMessage({ id, error: String(error) });
  }
};
