// Whether anything may move.

/** Returns whether the reader prefers reduced motion. */
export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
