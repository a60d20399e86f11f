// The scenes of each article, in their order. A scene is an object with these properties:
// - set() and act() return changes of the state: where the scene begins, and what it asks about.
//   question.js compares the page with both.
// - needs: a parameter. A model without it has the article without the scene.
// - studies: what Python measured beforehand. Other models have the article without the scene.
// - concerns: names of what matters beside the input of the model, such as the chosen head.
// - goesOn: what the reader is asked to move on after the act, which changes no question.
// - then(), work(): what is done after entering the scene, and while the act is shown.
// - experiments(): what has to be measured on many items before the scene concludes anything.
// - measure(before, now): the verdict on the question of the scene, {rows: [[label, before, after],
//   ...], heads?, outcome, verdict?, values?}. `outcome` is the index of the choice that turned out
//   right, and `verdict` the index of the text that explains it.
// - own(before, now): rows that can be measured on any two texts.
// - picture: the id of the part of the page that the verdict speaks of, if the tab has several.
// - figure: what is drawn below the verdict, or at the opening of the scene below its first paragraph.

import { studied } from "./contents.js";
import { scene as back } from "./scenes/back/scene.js";
import { scene as batchim } from "./scenes/batchim/scene.js";
import { scene as eojeol } from "./scenes/eojeol/scene.js";
import { scene as gap } from "./scenes/gap/scene.js";
import { scene as guess } from "./scenes/guess/scene.js";
import { english as englishHead, korean as koreanHead } from "./scenes/head/scene.js";
import { english as englishHeads, korean as koreanHeads } from "./scenes/heads/scene.js";
import { scene as it } from "./scenes/it/scene.js";
import { scene as jamo } from "./scenes/jamo/scene.js";
import { scene as layer } from "./scenes/layer/scene.js";
import { scene as layers } from "./scenes/layers/scene.js";
import { scene as meaning } from "./scenes/meaning/scene.js";
import { scene as neurons } from "./scenes/neurons/scene.js";
import { scene as numbersScene } from "./scenes/numbers/scene.js";
import { scene as order } from "./scenes/order/scene.js";
import { scene as pair } from "./scenes/pair/scene.js";
import { scene as patch } from "./scenes/patch/scene.js";
import { scene as pieces } from "./scenes/pieces/scene.js";
import { english as englishPlace, korean as koreanPlace } from "./scenes/place/scene.js";
import { scene as prologue } from "./scenes/prologue/scene.js";
import { english as englishQuery, korean as koreanQuery } from "./scenes/query/scene.js";
import { scene as reviews } from "./scenes/reviews/scene.js";
import { scene as senses } from "./scenes/senses/scene.js";
import { scene as sentence } from "./scenes/sentence/scene.js";
import { scene as several } from "./scenes/several/scene.js";
import { scene as sides } from "./scenes/sides/scene.js";
import { scene as spaces } from "./scenes/spaces/scene.js";
import { scene as step } from "./scenes/step/scene.js";
import { scene as task } from "./scenes/task/scene.js";
import { scene as training } from "./scenes/training/scene.js";
import { scene as transform } from "./scenes/transform/scene.js";
import { scene as unfreeze } from "./scenes/unfreeze/scene.js";
import { english as englishWhich, korean as koreanWhich } from "./scenes/which/scene.js";
import { page } from "../state/page.js";

/** @type {Scene[]} */
export const ENGLISH = [
  gap,
  pieces,
  numbersScene,
  englishPlace,
  prologue,
  englishQuery,
  englishHead,
  englishHeads,
  it,
  layer,
  layers,
  guess,
  sides,
  pair,
  sentence,
  training,
  step,
  back,
  task,
  unfreeze,
  englishWhich,
  several,
  transform,
  neurons,
];

/** @type {Scene[]} */
export const KOREAN = [
  gap,
  eojeol,
  spaces,
  jamo,
  koreanPlace,
  order,
  prologue,
  koreanQuery,
  koreanHead,
  koreanHeads,
  layer,
  senses,
  patch,
  batchim,
  sides,
  reviews,
  pair,
  meaning,
  training,
  step,
  back,
  task,
  unfreeze,
  koreanWhich,
  several,
  transform,
  neurons,
];

/** The eight scenes of each article for a reader who has twenty minutes. */
export const SHORT = new Set([
  ...["pieces", "numbers", "it", "guess"],
  ...["eojeol", "senses", "patch", "reviews"],
  ...["query", "heads", "training", "step"],
]);

/**
 * Whether the model has the weights that a scene needs, and was studied as it needs.
 * @param {{needs?: string, studies?: string}} of
 */
export const fits = ({ needs, studies }) =>
  (!needs || page.live.parameters.some((/** @type {any[]} */ [name]) => name === needs)) &&
  (!studies || Boolean(studied(studies)));

/** @type {Record<string, Scene[]>} */
const articles = { en: ENGLISH, ko: KOREAN };

/** The scenes of the article that fits the model. build.py chose it when the page was written. */
export const SCENES = (articles[page.lesson?.language] ?? []).filter(fits);

export const SCENE_COUNT = page.lesson ? SCENES.length : 0;
