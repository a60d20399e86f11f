// What both articles are tested for: the same tests in a process each, because the modules hold one
// page.

import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import test from "node:test";
import { MODULES, openPage } from "./page.js";

const RECORDED = new URL("recorded/", import.meta.url);
const ARTIFACTS = new URL("../artifacts/", import.meta.url);

// Questions as people type them, with the entries that answer them: none, if they are on another
// subject. Most were written before their writer saw an entry.
const ASKED = JSON.parse(readFileSync(new URL("asked.json", import.meta.url), "utf-8"));

const NUMBER = /[−-]?\d+(?:\.\d+)?/g;

/**
 * Whether two results agree: numbers, also those in a text, within two units of their last digit,
 * because processors round differently, and everything else exactly.
 */
function isAlike(a, b) {
  if (a === null || b === null || typeof a !== typeof b) {
    return a === b || (a ?? null) === (b ?? null);
  }
  if (typeof a === "object") {
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((key) => isAlike(a[key], b[key]));
  }
  const [one, other] = [String(a), String(b)];
  const numbers = [one, other].map((text) => text.match(NUMBER) ?? []);
  return (
    one.replaceAll(NUMBER, "#") === other.replaceAll(NUMBER, "#") &&
    numbers[0].every((value, i) => {
      const digits = value.split(".")[1]?.length ?? 0;
      return (
        Math.abs(value.replace("−", "-") - numbers[1][i].replace("−", "-")) <= 2.1 / 10 ** digits
      );
    })
  );
}

/** Returns the elements around the one with an id, from the outermost: "kind" or "kind#id". */
function parentsOf(html, id) {
  const around = [];
  for (const [tag, end, kind, attributes] of html.matchAll(/<(\/?)([a-z][a-z\d]*)([^>]*)>/g)) {
    if (end) {
      around.pop();
      continue;
    }
    const [, own] = /\bid="([^"]*)"/.exec(attributes) ?? [];
    if (own === id) {
      return around;
    }
    if (!/^(meta|input|br|link)$/.test(kind) && !tag.endsWith("/>")) {
      around.push(own ? `${kind}#${own}` : kind);
    }
  }
  throw new Error(`no element has the id ${id}`);
}

/** Returns what `write` puts into the elements with an id: {id: [nodes and texts]}. */
function recordWriting(write) {
  const own = document;
  const written = {};
  const boxes = new Map();
  const boxOf = (id) => {
    const box = {
      replaceChildren: (...nodes) => (written[id] = nodes),
      querySelectorAll: () => [],
    };
    boxes.set(id, boxes.get(id) ?? box);
    return boxes.get(id);
  };
  const make = (kind) => ({ kind, append() {}, setAttribute() {}, dataset: {} });
  const recording = { getElementById: boxOf, createElement: make };
  Object.defineProperty(globalThis, "document", { value: recording, configurable: true });
  try {
    write();
  } finally {
    Object.defineProperty(globalThis, "document", { value: own, configurable: true });
  }
  return written;
}

/** Returns the text of nodes and texts. */
const textOf = (nodes) => nodes.map((node) => node.textContent ?? node).join("");

/** Returns what a scene measures after its act. */
async function measured(page, scene) {
  const { BLANK, current, requestOf, show, state } = page;
  const { live } = current;
  Object.assign(state, BLANK(), scene.set());
  const before = await live.compute(requestOf(state));
  Object.assign(state, BLANK(), scene.set(), scene.act());
  const now = await live.compute(requestOf(state));
  show(now);
  await scene.work?.();
  for (const experiment of scene.experiments?.() ?? []) {
    await experiment.finish(() => true);
  }
  const { rows, heads, outcome, verdict, values } = await scene.measure(before, now);
  return JSON.parse(JSON.stringify({ rows, heads, outcome, verdict, values }));
}

/** Tests the scenes, the questions of Ask, the tokenizer and the model of one page. */
export async function testArticle(language) {
  const page = await openPage(language);
  const { SCENES, amounts, current, state, t } = page;
  const expected = JSON.parse(readFileSync(process.env.EXPECTED, "utf-8"))[language];
  const file = new URL(`${language}.json`, RECORDED);
  const recorded = JSON.parse(readFileSync(file, "utf-8"));

  const { RECORD } = process.env;
  test("the recorded scenes are those of the article", { skip: Boolean(RECORD) }, () => {
    assert.deepEqual(
      SCENES.map(({ id }) => id),
      Object.keys(recorded),
    );
  });

  const results = {};
  for (const [number, scene] of SCENES.entries()) {
    test(`the scene ${scene.id} measures what was recorded`, async () => {
      const result = await measured(page, scene);
      results[scene.id] = result;
      if (RECORD) {
        return;
      }
      for (const [name, value] of Object.entries(result)) {
        const before = recorded[scene.id][name] ?? null;
        assert.ok(
          isAlike(value, before),
          `${name}: ${JSON.stringify(value)}, not ${JSON.stringify(before)}`,
        );
      }
      state.scene = number;
      const said = t(`lesson.${scene.id}.verdict.${result.verdict ?? result.outcome}`, {
        ...amounts(),
        ...result.values,
      });
      assert.ok(said.length > 40 && !said.startsWith("lesson."), said);
      for (const [, name] of said.matchAll(/undefined|\{(\w+)\}/g)) {
        assert.fail(`${name} is missing in: ${said}`);
      }
    });
  }

  test("what a scene shows as before does not depend on what the reader changes", async () => {
    const { BLANK, current, firstState, measuredAnyway, requestOf, show, sizes, state } = page;
    const typed = language === "en" ? ["the cat, the dog [MASK]", "x"] : ["배를 [MASK] 말", "가"];
    const moved = [
      { layer: sizes.layers - 1, head: sizes.heads - 1 },
      { depth: 2, rule: "next", sides: "left", snapshot: 1, turn: 120, reach: 3 },
    ];
    for (const scene of SCENES.filter(({ own }) => own)) {
      const before = await current.live.compute(requestOf(firstState(scene)));
      const columns = [];
      for (const changes of [...typed.map((text) => ({ text })), ...moved]) {
        Object.assign(state, BLANK(), scene.set(), changes);
        const now = await current.live.compute(requestOf(state));
        show(now);
        const { rows } = await measuredAnyway(scene, before, now);
        columns.push(new Map(rows.map(([name, first]) => [name, first])));
      }
      for (const [name, first] of columns[0]) {
        for (const column of columns.slice(1)) {
          assert.equal(column.get(name) ?? first, first, `${scene.id}: ${name}`);
        }
      }
    }
    Object.assign(state, BLANK());
  });

  test("the model fills the blank that a reader sees first", async () => {
    const { BLANK, answersOf, requestOf } = page;
    Object.assign(state, BLANK(), SCENES[0].set());
    const [best, second] = await answersOf(await current.live.compute(requestOf(state)));
    assert.match(best[0], language === "en" ? /^[a-z]+$/ : /^[가-힣]+$/);
    assert.ok(best[1] > 1.5 * second[1], `${best}, ${second}`);
    Object.assign(state, BLANK());
  });

  test("the sentence that answers a scene is never folded", async () => {
    const html = readFileSync(new URL("page.html", MODULES), "utf-8");
    const around = parentsOf(html, "scene-brief");
    assert.deepEqual(around.slice(-2), ["div#scene-verdict", "div#scene-found"]);
    assert.ok(!around.some((item) => item.startsWith("details")), `${around}`);
    assert.ok(parentsOf(html, "scene-rest").includes("details#scene-more"));
    const { tellVerdict, words } = page;
    const own = document;
    for (const reader of ["en", "ko"]) {
      state.language = reader;
      for (const [number, scene] of SCENES.entries()) {
        state.scene = number;
        const result = recorded[scene.id];
        const begin = `lesson.${scene.id}.verdict.`;
        const verdicts = Object.keys(words[reader]).filter((key) => key.startsWith(begin));
        assert.ok(verdicts.length, scene.id);
        for (const key of verdicts) {
          const found = { ...result, verdict: key.slice(begin.length) };
          const written = recordWriting(() => tellVerdict(scene, found, "verdict", []));
          const said = t(key, { ...amounts(), ...result.values }).split("\n\n")[0];
          const [answer] = written["scene-brief"];
          assert.equal(answer.kind, "strong", key);
          assert.ok(answer.textContent.length > 1 && said.startsWith(answer.textContent), key);
          assert.ok(!textOf(written["scene-rest"]).includes(answer.textContent), key);
        }
      }
    }
    assert.equal(document, own);
    Object.assign(state, { language: "en", scene: 0 });
  });

  test("a shorter text keeps the words that a scene compares", async () => {
    const { BLANK, current, firstState, measuredAnyway, requestOf, show, state } = page;
    const scene = SCENES.find(({ id }) => id === "head");
    const before = await current.live.compute(requestOf(firstState(scene)));
    const text = language === "en" ? "Hi." : "가.";
    Object.assign(state, BLANK(), scene.set(), { text });
    const now = await current.live.compute(requestOf(state));
    show(now);
    const last = now.tokens.length - 1;
    for (const places of [{}, { token: Math.min(state.token, last), key: last }]) {
      Object.assign(state, places); // the page moves a choice behind the text to its last token
      const { rows } = await measuredAnyway(scene, before, now);
      const [, first, own] = rows.find(([name]) => name === "pair");
      assert.ok(first.includes(" → "), first);
      assert.equal(own, "–");
    }
    Object.assign(state, BLANK());
  });

  test("what a scene asks to move on after its act is no changed question", async () => {
    const { BLANK, current, pressed, requestOf, show, standing, state } = page;
    for (const scene of SCENES.filter(({ goesOn }) => goesOn)) {
      Object.assign(state, BLANK(), scene.set(), scene.act());
      show(await current.live.compute(requestOf(state)));
      pressed.add(scene.id);
      for (const name of scene.goesOn) {
        state[name] += 1;
      }
      assert.equal(standing(scene).may, "verdict", scene.id);
      pressed.delete(scene.id);
    }
    Object.assign(state, BLANK());
  });

  test("the results are recorded, if that is asked for", { skip: !RECORD }, () => {
    writeFileSync(file, `${JSON.stringify(results, null, 1)}\n`);
  });

  test("texts become the pieces of Python", () => {
    for (const [text, pair, ids] of expected.tokens) {
      const own = current.live.tokenizer.encode(text, pair).map(({ id }) => id);
      assert.deepEqual(own, ids, text);
    }
  });

  test("the model computes what PyTorch computes", async () => {
    for (const { request, tokens, values } of expected.runs) {
      const computed = await current.live.compute(request);
      assert.deepEqual(
        computed.tokens.map(({ piece }) => piece),
        tokens,
      );
      for (const [name, { shape, data }] of Object.entries(values)) {
        const step = computed.steps.get(name);
        assert.deepEqual(step.shape, shape, name);
        const apart = data.reduce(
          (most, value, i) => Math.max(most, Math.abs(value - step.data[i])),
          0,
        );
        assert.ok(apart < 2e-4, `${name} differs by ${apart} for ${JSON.stringify(request)}`);
      }
    }
  });

  test("every question of Ask opens a door of the page, and finds itself", () => {
    const { SECTIONS, modelLanguage, questions, rankByLetters, recall, state, throughDoor } = page;
    const limits = new Proxy({}, { get: () => 1000 });
    for (const question of questions) {
      location.hash = `#ask=${question.id}`;
      recall(throughDoor, limits);
      const door = question.door[modelLanguage()];
      assert.equal(state.ask, question.id);
      assert.equal(state.text, door.text);
      assert.ok(SECTIONS.includes(state.section), question.id);
      assert.ok(
        current.live.tokens({ ...state, padTo: state.pad }).length > state.token,
        question.id,
      );
      assert.ok(question.scene.length > 0, question.id);
      const nearest = rankByLetters(question[language].question).slice(0, 3);
      const names = nearest.map(([{ id }]) => id);
      assert.ok(names.includes(question.id), question[language].question);
    }
  });

  test("Ask finds what was asked in other words, and declines other subjects", async () => {
    const { isAnswer, rankByVectors } = page;
    const wrong = [];
    const asked = ASKED[language];
    for (const [text, ids] of asked) {
      const found = await rankByVectors(text);
      const { id } = found.find(([one]) => !one.elsewhere)[0];
      if (isAnswer(found, "vectors") ? !ids.includes(id) : ids.length) {
        wrong.push(`${text}: ${id}`);
      }
    }
    assert.ok(wrong.length <= 0.05 * asked.length, wrong.join("\n"));
  });

  test("the address names the scene, and older ones have its number", () => {
    const { NAMES, recall } = page;
    NAMES.scene = [...SCENES.map(({ id }) => id), "end"];
    const limits = new Proxy({}, { get: () => SCENES.length });
    for (const [said, number] of [
      [SCENES[3].id, 3],
      ["end", SCENES.length],
      ["4", 4],
      ["nowhere", 4], // is ignored
    ]) {
      location.hash = `#scene=${said}`;
      recall((all) => all, limits);
      assert.equal(state.scene, number, said);
    }
    delete NAMES.scene;
  });

  test("addresses that earlier versions wrote show what they showed", () => {
    const { BLANK, NAMES, recall, throughDoor } = page;
    NAMES.scene = [...SCENES.map(({ id }) => id), "end"];
    const limits = new Proxy({}, { get: () => 1000 });
    const first = structuredClone({ ...state, ...BLANK() });
    const versions = readdirSync(ARTIFACTS).filter((name) => /^\d/.test(name));
    assert.ok(versions.length);
    for (const version of versions) {
      const written = new URL(`${version}/addresses/${language}.json`, ARTIFACTS);
      for (const { address, state: held } of JSON.parse(readFileSync(written, "utf-8"))) {
        Object.assign(state, structuredClone(first));
        location.hash = address;
        recall(throughDoor, limits);
        const shown = { ...state, scene: NAMES.scene[state.scene] };
        for (const [name, value] of Object.entries(held)) {
          assert.deepEqual(shown[name], value, `${name} of ${address}`);
        }
      }
    }
    Object.assign(state, first);
    delete NAMES.scene;
  });

  test("the address holds the state", async () => {
    const { BLANK, recall, remember, root, state } = page;
    const wanted = {
      ...{ text: "Paris & Rome?", pair: "#1 = 2", masked: [1, 2], off: [[0, 1], [1]], pad: 20 },
      ...{ sides: "left", section: "hidden", layer: 1, head: 1, token: 3, threshold: 0.25 },
      ...{ special: false, language: "ko", guesses: "pieces.1.1.closed", theme: "dark" },
    };
    assert.ok(root.dataset.ready);
    Object.assign(state, BLANK(), wanted);
    remember();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const limits = new Proxy({}, { get: () => 1000 });
    Object.assign(state, BLANK(), { section: "text", language: "en", guesses: "", theme: "" });
    recall((said) => said, limits);
    for (const [name, value] of Object.entries(wanted)) {
      assert.deepEqual(state[name], value, name);
    }
    location.hash = "#text=x&section=nowhere&layer=1e9&off=9.9_x&sides=up&token=-4&pad=1000000";
    recall((said) => said, { ...limits, layer: 3, token: 127 });
    const { section, layer, off, sides, token, pad } = state;
    assert.deepEqual([section, layer, off, sides, token], ["hidden", 3, [], "both", 0]);
    assert.ok(pad <= current.live.longest);
    Object.assign(state, { language: "en" });
  });

  return { page, test, assert };
}
