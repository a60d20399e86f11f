// The types that modules of the page share. Those of a single module are in its comments.

interface Tensor {
  shape: number[];
  data: any; // a typed array, in row-major order
}

/** One row of a sequence that the model reads. */
interface Token {
  id: number;
  piece: string;
  type: number; // 0 for the first text, 1 for the second
  mask: number; // 0 for padding
  start: number; // offsets in the text, in code points
  end: number;
  segment?: number; // the type id that the model gets
  [column: string]: any;
}

/** The sizes and settings of a model, as in config.json. */
interface ModelConfig {
  hidden_act: string;
  hidden_size: number;
  num_hidden_layers: number;
  num_attention_heads: number;
  intermediate_size: number;
  vocab_size: number;
  max_position_embeddings: number;
  type_vocab_size: number;
  layer_norm_eps: number;
}

/** What the encoder reads: see `run` in model/bert.js. */
interface ModelInput {
  ids: number[];
  types: number[];
  mask: number[];
  sides?: string;
  off?: number[][];
  from?: number;
  states?: Tensor | null;
  idle?: number[];
  sharing?: number;
  shifted?: boolean;
}

/** What the model is asked to compute. */
interface ModelRequest {
  text: string;
  pair?: string | null;
  masked?: number[];
  off?: number[][];
  padTo?: number;
  sides?: string;
  type?: number | null;
  from?: number;
  states?: Tensor | null;
  idle?: number[];
  sharing?: number;
  shifted?: boolean;
}

/** The request of a state of the page, with every value. */
interface PageRequest extends ModelRequest {
  pair: string | null;
  masked: number[];
  off: number[][];
  padTo: number;
  sides: string;
  type: number | null;
}

/** The values of one step, as `Numbers` in model/numbers.js. */
interface Values extends Tensor {
  scale: number;
  at(...at: number[]): number;
  text(...at: number[]): string;
  row(...at: number[]): number[];
  typical(): number;
}

/** Steps by their names in minibert.trace. A name that a model lacks gives undefined. */
interface Steps {
  get(name: string): Values;
}

/** A predicted word with its probability. */
type Prediction = [string, number];

/** A computed text. What is derived from it is kept with it. */
interface Computed {
  request: PageRequest;
  tokens: Token[];
  steps: Steps;
  texts: string[];
  lens: Prediction[][][] | null;
  live: boolean;
  whole?: Computed; // the same text with the whole model
  [derived: string]: any;
}

/** What the reader chose. */
interface State {
  section: string;
  text: string;
  pair: string | null;
  masked: number[];
  off: number[][];
  pad: number;
  type: number | null;
  sides: string;
  token: number;
  key: number;
  layer: number;
  head: number;
  part: number;
  step: number;
  pinned: [number, number][];
  depth: number;
  stage: string;
  view: string;
  threshold: number;
  special: boolean;
  compare: string;
  rule: string;
  unit: string;
  number: number;
  row: number;
  turn: number;
  reach: number;
  other: string;
  same: string;
  snapshot: number;
  scene: number;
  guess: number;
  guesses: string;
  explore: string;
  ask: string;
  tour: number;
  trouble: string;
  language: string;
  theme: string;
  [name: string]: any; // by a name that is computed
}

/** A head by its place. */
interface HeadPlace {
  layer: number;
  head: number;
  [found: string]: any;
}

/** What patching one text with the states of another gives: see views/compare/carriers.js. */
interface PatchedMap {
  key: string;
  requests: ModelRequest[];
  texts: Computed[];
  word: string;
  id: number; // of the word
  place: number; // of [MASK]
  plain: number[]; // the probabilities of the word in both texts
  cells: number[][]; // by layer and token
  chosen: any;
  wire: any; // the heads that carry the difference, once they are found
}

/** What a heat map shows: see parts/heat-map.js. */
interface Plan {
  rows: number;
  cols: number;
  palette: string;
  cursor: number[];
  shade: (r: number, c: number) => number | null;
  describe: (r: number, c: number) => string;
  python: (r: number, c: number) => string;
  move: (r: number, c: number) => void;
  rowLabel: (r: number) => string;
  colLabel?: (c: number) => string;
  write?: (r: number, c: number) => string;
  over?: (context: CanvasRenderingContext2D, area: Area, cell: number[]) => void;
  space: number;
  tallest?: number;
  square?: boolean;
  slanted?: boolean;
  smallest?: number[];
  left?: number;
  top?: number;
  right?: number;
  quiet?: boolean;
  marked?: number;
}

interface Area {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** What a scene concludes: see article/order.js. */
interface Verdict {
  rows: any[][];
  heads?: string[];
  outcome: number;
  verdict?: number;
  values?: Record<string, string | number>;
}

interface Figure {
  opening?: boolean;
  begin?: (before: Computed, now: Computed, isOpen: () => boolean) => Promise<void>;
  ready: () => boolean;
  caption: () => string;
  choices: () => [string, boolean, () => void][];
  said?: () => string;
  plan?: () => Plan;
  legend?: () => [string, string, string];
  draw?: (box: any) => void;
  drawBeside?: () => void;
}

interface Scene {
  id: string;
  needs?: string;
  studies?: string;
  concerns?: string[];
  goesOn?: string[];
  set: () => Partial<State>;
  act: () => Partial<State>;
  then?: () => void;
  work?: () => Promise<void>;
  experiments?: () => any[];
  amounts?: () => Record<string, string | number>;
  progress?: () => { running: boolean; part: number };
  measure: (before: Computed, now: Computed) => Verdict | Promise<Verdict>;
  own?: (before: Computed, now: Computed) => any[][] | Promise<any[][]>;
  figure?: Figure;
  picture?: string; // id of the part of the stage that the verdict speaks of
  before?: Promise<Computed>;
}

/** A row of a step of a head: its label, its values, and the Python of the value in column c. */
interface Row {
  label: string;
  name?: string;
  scale?: string;
  value: (c: number) => number;
  python: (c: any) => string; // ":" for all columns
  line?: (c: number) => string;
}
