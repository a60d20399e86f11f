// Which sides of its own token a query may look at; the page and its worker share it.

/** (query, key) => whether the one may look at the other, by name. As `sides` in minibert/page/live.py. */
const SIDES = {
  both: () => true, // an encoder, as BERT was trained
  left: (q, k) => k <= q, // a decoder, such as GPT
  right: (q, k) => k >= q,
  none: (q, k) => q === k,
};

/** 1 where a query may look at a key, else 0: (seq, seq), from a mask of the keys alone. */
const visibleKeys = (mask, sides) =>
  mask.flatMap((_, q) => mask.map((kept, k) => (kept && SIDES[sides](q, k) ? 1 : 0)));
