// The frame around the sections, and the sections for input and output.

// ---------------------------------------------------------------- the frame

// States that buttons with data-... set.
const CHOSEN = ["language", "stage", "view", "compare", "unit"];
const buttonsOf = (name) => document.querySelectorAll(`button[data-${name}]`);

function buildFrame() {
  document.title = page.texts[0].slice(0, 60) || "minibert";
  walk(
    $("tokens"),
    () => [1, count],
    () => [0, state.token],
    (_, token) => {
      change({ token });
      tell(...tokenTold(token));
    },
  );
  $("tokens").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && live) {
      toggleMask();
    }
  });
  $("mask").onclick = toggleMask;
  // A link would change the address, which holds the state.
  $("skip").onclick = () => {
    const article = SCENES[state.scene] ? "scene-title" : "ending-title";
    $(page.lesson ? article : `tab-${state.section}`).focus();
  };
  SECTIONS.forEach((name, i) => {
    const tab = element("button", "", {
      type: "button",
      id: `tab-${name}`,
      onclick: () => change({ section: name }),
    });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", name);
    // The article numbers its scenes instead.
    tab.append(element("small", page.lesson ? "" : i), element("span"));
    tab.lastChild.dataset.t = name === "head" ? "head.tab" : name;
    $("tabs").append(tab);
    $(name).setAttribute("role", "tabpanel");
    $(name).setAttribute("aria-labelledby", tab.id);
  });
  walk(
    $("tabs"),
    () => [1, SECTIONS.length],
    () => [0, SECTIONS.indexOf(state.section)],
    (_, i) => {
      change({ section: SECTIONS[i] });
      $(`tab-${SECTIONS[i]}`).focus();
    },
  );
  for (const name of CHOSEN) {
    for (const button of buttonsOf(name)) {
      button.onclick = () => change({ [name]: button.dataset[name] });
    }
  }
  $("theme").onclick = () => {
    state.theme = root.dataset.theme === "dark" ? "light" : "dark";
    showTheme();
    draw();
  };
  matchMedia("(prefers-color-scheme: dark)").onchange = () => {
    showTheme();
    draw();
  };
  // On a phone and next to the article, leave the space of rarely used controls to the maps.
  const open = () => {
    $("more").open = !page.lesson && $("page").clientWidth > 640;
  };
  open();
  let width = innerWidth; // a phone's keyboard changes only the height
  window.onresize = () => {
    grid = null;
    if (innerWidth !== width) {
      width = innerWidth;
      open();
    }
    draw();
  };
  $("copy").onclick = copyPython;
}

function buildTokens() {
  $("tokens").replaceChildren(
    ...tokens.map((token, i) => {
      const chip = element("span", token.piece, {
        id: `token-${i}`,
        dir: "auto",
        onclick: () => {
          change({ token: i });
          tell(...tokenTold(i));
        },
      });
      chip.setAttribute("role", "option");
      chip.classList.toggle("special", SPECIAL.test(token.piece));
      chip.classList.toggle("second", token.type === 1);
      chip.classList.toggle("off", token.mask === 0);
      return chip;
    }),
  );
  buildText();
  buildPredictions();
  buildHeadChoices();
  grid = null;
}

/** Masks the chosen token, or unmasks it. */
function toggleMask() {
  const { masked, token } = state;
  ask({
    masked: masked.includes(token)
      ? masked.filter((place) => place !== token)
      : [...masked, token].sort((a, b) => a - b),
  });
}

let offered = null; // the text in which a token was masked automatically

/**
 * Masks the last whole word if nothing is masked yet, once for each text. Without a [MASK] there is
 * nothing to predict.
 */
function hideOne() {
  if (
    !live?.predicts ||
    offered === state.text ||
    tokens.some((token) => token.piece === "[MASK]")
  ) {
    return;
  }
  offered = state.text;
  const whole = tokens
    .map((_, i) => i)
    .filter((i) => /^\p{L}{2,}$/u.test(piece(i)) && !tokens[i + 1]?.piece.startsWith("##"));
  if (whole.length) {
    ask({ masked: [whole.at(-1)], token: whole.at(-1) });
  }
}

/** Shows the parts that are switched off, and their effect on the chosen token. */
function drawOff() {
  const { whole } = shown;
  const off = shown.request.off.map((at) =>
    t(at.length > 1 ? "attention.chosen" : "off.layer", { layer: at[0], head: at[1] }),
  );
  const altered = off.length ? [t("off.say", { parts: off.join(" · ") })] : [];
  if (shown.request.type !== null) {
    altered.push(t("off.types", { type: shown.request.type }));
  }
  $("off").hidden = !altered.length;
  if (!altered.length || !whole) {
    return;
  }
  const mask = tokens.findIndex((token) => token.piece === "[MASK]");
  const i = mask < 0 || piece(state.token) === "[MASK]" ? state.token : mask;
  const parts = altered;
  const states = [whole, shown].map((own) => hiddenState(sizes.layers, own).row(i));
  parts.push(
    t("off.cosine", {
      token: piece(i),
      state: `h${sizes.layers}`,
      value: cosine(...states).toFixed(4),
    }),
  );
  const words = (shown.words ??= new Map());
  const best = words.get(i);
  if (best) {
    const [before, after] = best.map(([word, share]) => `${word} ${share.toFixed(4)}`);
    parts.push(t("off.words", { before, after }));
  } else if (live.predicts && best === undefined) {
    words.set(i, null);
    const own = shown;
    const rows = { shape: [2, sizes.hidden], data: Float32Array.from(states.flat()) };
    live.words(rows).then((found) => {
      words.set(
        i,
        found.map((row) => row[0]),
      );
      if (own === shown) {
        draw();
      }
    });
  }
  $("off-say").replaceChildren(...parts.map((part) => element("span", part)));
}

/** Returns the description of a token and the Python that prints its id. */
function tokenTold(i) {
  const options = [
    literal(shown.request.text),
    ...(shown.request.pair === null ? [] : [literal(shown.request.pair)]),
  ].join(", ");
  const plain = !shown.request.masked.includes(i) && tokens[i].mask;
  const line =
    "from minibert import BertTokenizer; " +
    `print(BertTokenizer.from_pretrained(${literal(page.source)})(${options})["input_ids"][${i}])`;
  return [`${t("token")} ${i}: ${piece(i)} · ${tokens[i].id}`, null, plain ? line : ""];
}

/** Shows the name of the model: the page's own, or the small one in the section on training. */
function drawModelLine() {
  root.dataset.section = state.section;
  root.dataset.scene = SCENES[state.scene]?.id ?? "";
  let name = page.name;
  let shownSizes = sizes;
  if (state.section === "training" && page.run) {
    const { config, parameters, steps } = page.run;
    const rows = new Map(parameters);
    name = t("training.model", { step: steps.at(-1).toLocaleString("en") });
    shownSizes = {
      layers: config.num_hidden_layers,
      heads: config.num_attention_heads,
      hidden: rows.get("embeddings.word_embeddings.weight")[1],
      parameters: parameters.reduce(
        (sum, [, shape]) => sum + shape.reduce((product, size) => product * size, 1),
        0,
      ),
    };
  }
  const amounts = Object.entries(shownSizes).map(([key, size]) => [key, size.toLocaleString("en")]);
  $("model").replaceChildren(element("b", name), ` · ${t("summary", Object.fromEntries(amounts))}`);
}

function drawFrame() {
  // Setting the same text again would cause a layout, and the same language one of the whole page.
  const changed = (before, now, write) => {
    if (before !== now) {
      write(now);
    }
  };
  changed(root.lang, state.language, (language) => {
    root.lang = language;
  });
  for (const item of document.querySelectorAll("[data-t]")) {
    changed(item.textContent, t(item.dataset.t), (said) => {
      item.textContent = said;
    });
  }
  for (const item of document.querySelectorAll("[data-label]")) {
    changed(item.getAttribute("aria-label"), t(item.dataset.label), (said) =>
      item.setAttribute("aria-label", said),
    );
  }
  for (const name of CHOSEN) {
    for (const button of buttonsOf(name)) {
      button.setAttribute("aria-pressed", button.dataset[name] === state[name]);
    }
  }
  $("coverage").textContent = shown.texts.map(coverage).find(Boolean) ?? "";
  drawModelLine();
  for (const name of SECTIONS) {
    const open = name === state.section;
    const tab = $(`tab-${name}`);
    $(name).hidden = !open;
    tab.setAttribute("aria-selected", open);
    tab.tabIndex = open ? 0 : -1;
    if (open && tab.offsetLeft + tab.offsetWidth > $("tabs").scrollLeft + $("tabs").clientWidth) {
      $("tabs").scrollLeft = tab.offsetLeft;
    }
    if (open && tab.offsetLeft < $("tabs").scrollLeft) {
      $("tabs").scrollLeft = tab.offsetLeft - 8;
    }
  }
  drawOff();
  tokens.forEach((_, i) => $(`token-${i}`).setAttribute("aria-selected", i === state.token));
  $("tokens").setAttribute("aria-activedescendant", `token-${state.token}`);
  const chip = $(`token-${state.token}`);
  const strip = $("tokens");
  if (
    chip.offsetLeft < strip.scrollLeft ||
    chip.offsetLeft + chip.offsetWidth > strip.scrollLeft + strip.clientWidth
  ) {
    strip.scrollLeft = chip.offsetLeft - strip.clientWidth / 2;
  }
  $("mask").disabled = piece(state.token) === "[MASK]" && !state.masked.includes(state.token);
  $("mask").textContent = t(state.masked.includes(state.token) ? "unmask" : "mask", {
    token: piece(state.token),
  });
}

// ---------------------------------------------------------------- 0 text

const fillEdits = () => {
  $("pad").value = state.pad || "";
  $("types").checked = state.type !== null;
  $("edit").value = state.text;
  $("edit-pair").value = state.pair ?? "";
};

function buildText() {
  if (!$("edit").oninput) {
    fillEdits();
    const typed = () =>
      type({ text: $("edit").value, pair: $("edit-pair").value || null, masked: [] });
    for (const id of ["edit", "edit-pair"]) {
      $(id).oninput = typed;
    }
    $("pad").max = page.max_tokens;
    $("pad").oninput = () =>
      ask({ pad: clamp(Math.round(Number($("pad").value)), 0, page.max_tokens) });
    $("types").onchange = () => ask({ type: $("types").checked ? 1 : null });
    $("types").parentElement.hidden = !(live?.types > 1);
  }
  $("texts").replaceChildren(
    ...shown.texts.map((text, which) => {
      const line = element("p", "", { dir: "auto" });
      const letters = Array.from(text); // offsets count code points
      let end = 0;
      tokens.forEach((token, i) => {
        // The pieces of a decomposed Korean syllable share its offsets.
        const start = Math.max(token.start, end);
        if (token.type !== which || token.end <= start) {
          return;
        }
        line.append(letters.slice(end, start).join(""));
        const span = element("span", letters.slice(start, token.end).join(""), {
          onclick: () => change({ token: i }),
        });
        span.dataset.token = i;
        line.append(span);
        end = token.end;
      });
      line.append(letters.slice(end).join(""));
      return line;
    }),
  );
  const body = element("tbody");
  tokens.forEach((token, i) => {
    const row = element("tr", "", {
      onclick: () => {
        change({ token: i });
        tell(...tokenTold(i));
      },
    });
    const letters = Array.from(shown.texts[token.type] ?? "")
      .slice(token.start, token.end)
      .join("");
    row.append(
      element("td", i),
      element("td", letters, { dir: "auto" }),
      element("td", token.piece, { dir: "auto" }),
    );
    row.append(
      element("td", token.id),
      element("td", token.segment ?? token.type),
      element("td", token.mask),
    );
    row.classList.toggle("off", token.mask === 0);
    body.append(row);
  });
  $("pieces").replaceChildren(element("thead"), body);
}

function drawText() {
  const hues = color("hues").split(",");
  for (const span of $("texts").querySelectorAll("span")) {
    span.style.background = hues[span.dataset.token % hues.length];
    span.classList.toggle("on", Number(span.dataset.token) === state.token);
  }
  const row = element("tr");
  for (const name of ["place", "characters", "piece", "id", "type", "mask"]) {
    row.append(element("th", t(`text.${name}`)));
  }
  $("pieces").tHead.replaceChildren(row);
  mark($("pieces"), state.token);
  $("trouble").textContent = state.trouble;
  let source = "source.photograph";
  if (live) {
    source = shown.live ? "source.live" : "source.exact";
  }
  $("source-say").textContent = t(source);
}

// ---------------------------------------------------------------- 1 embeddings and 6 pooler

/**
 * Returns a map of a few vectors.
 * @param rows () => label, name of the step, and index in it for each vector.
 */
function vectors(id, rows) {
  return new HeatMap(id, () => {
    const all = rows();
    return {
      rows: all.length,
      cols: sizes.hidden,
      palette: "diverging",
      space: 420,
      tallest: 64,
      left: 150,
      smallest: [4, 24],
      cursor: [Math.min(state.row, all.length - 1), state.number],
      rowLabel: (r) => t(all[r][0]),
      shade: (r, c) =>
        0.5 + numbers(all[r][1]).at(...all[r][2], c) / numbers(all[r][1]).typical() / 2,
      describe: (r, c) =>
        t("vector.cell", {
          row: t(all[r][0]),
          index: c,
          value: numbers(all[r][1]).text(...all[r][2], c),
        }),
      python: (r, c) => stepPython(all[r][1], ...all[r][2], c),
      move: (r, c) => change({ row: r, number: c }),
    };
  });
}

const EMBEDDINGS = ["word", "token_type", "position", "sum", "output"];
const embeddingsMap = vectors("embeddings-map", () =>
  EMBEDDINGS.map((name) => [`embeddings.${name}`, `embeddings.${name}`, [state.token]]),
);
const poolerMap = vectors("pooler-map", () =>
  ["cls", "dense", "output"].map((name) => [`pooler.${name}`, `pooler.${name}`, []]),
);

function drawEmbeddings() {
  const token = tokens[state.token];
  $("embeddings-sum").textContent =
    `h0[${state.token}] = LayerNorm( ${t("embeddings.word")}\u2060[${token.id}] + ` +
    `${t("embeddings.token_type")}\u2060[${token.segment ?? token.type}] + ` +
    `${t("embeddings.position")}\u2060[${state.token}] ),  ${token.id}\u00a0=\u00a0${token.piece}`;
  embeddingsMap.draw();
  const scales = EMBEDDINGS.map(
    (name) => `${t(`embeddings.${name}`)} ±${numbers(`embeddings.${name}`).typical().toFixed(2)}`,
  );
  legend("embeddings-legend", "diverging", "−", "+");
  $("embeddings-legend").append(element("span", scales.join("   ")));
}

function drawPooler() {
  const has = Boolean(numbers("pooler.output"));
  const logits = numbers("nsp.logits");
  $("pooler-map").hidden = $("pooler-legend").hidden = !has;
  $("pooler-say").textContent = t(has ? "pooler.say" : "pooler.none");
  $("next").replaceChildren();
  if (!has) {
    return;
  }
  poolerMap.draw();
  signedLegend("pooler-legend", numbers("pooler.output").typical());
  if (!logits) {
    return;
  }
  const heading = element("h2", t("pooler.next"));
  if (shown.texts.length < 2) {
    // A single text has no next sentence.
    const add = element("button", t("pooler.add"), {
      type: "button",
      onclick: () => {
        change({ section: "text" });
        $("edit-pair").focus();
      },
    });
    $("next").replaceChildren(
      heading,
      element("p", t("pooler.single"), { className: "say" }),
      ...(live ? [add] : []),
    );
    return;
  }
  const [follows, random] = Array.from(logits.data, (value) => value / logits.scale);
  const share = 1 / (1 + Math.exp(random - follows));
  const list = element("div", "", { className: "words" });
  ["follows", "random"].forEach((name, i) => {
    const value = i ? 1 - share : share;
    const text = value.toFixed(4);
    const say = () =>
      tell(`${t(`pooler.${name}`)}: ${text}`, null, python(`t['nsp.logits'][0].softmax(-1)[${i}]`));
    list.append(element("span", t(`pooler.${name}`)), bar(value), numberNode(text, say));
  });
  $("next").replaceChildren(
    heading,
    list,
    element("p", worthOfNext(), { className: shown.worth > 0.5 ? "say trouble" : "say" }),
  );
}

/** Sentences that follow nothing. Their score shows how much the model's "follows" is worth. */
const UNRELATED = {
  en: "The recipe needs two eggs and a cup of flour.",
  ko: "냉장고에 우유가 두 팩 남아 있다.",
};

function worthOfNext() {
  if (!live) {
    return "";
  }
  const [first] = shown.texts;
  const own = shown;
  const other = UNRELATED[/\p{Script=Hangul}/u.test(first) ? "ko" : "en"];
  if (own.worth === undefined) {
    own.worth = null;
    live.compute({ text: first, pair: other, off: own.request.off }).then(
      ({ steps }) => {
        const [follows, random] = steps.get("nsp.logits").row();
        own.worth = 1 / (1 + Math.exp(random - follows));
        if (own === shown && state.section === "pooler") {
          draw();
        }
      },
      () => {},
    );
  }
  if (own.worth === null) {
    return "";
  }
  return t(own.worth > 0.5 ? "pooler.worthless" : "pooler.worth", {
    other,
    value: own.worth.toFixed(4),
  });
}

// ---------------------------------------------------------------- 4 hidden states

const hiddenMap = new HeatMap("hidden-map", () => {
  const { depth } = state;
  const values = hiddenState(depth);
  const most = values.typical();
  return {
    rows: count,
    cols: sizes.hidden,
    palette: "diverging",
    space: spaceBelow("hidden-map", 240),
    tallest: 40,
    smallest: [4, 16],
    cursor: [state.token, state.number],
    rowLabel: piece,
    shade: (r, c) => 0.5 + values.at(r, c) / most / 2,
    describe: (r, c) =>
      t("hidden.cell", { state: `h${depth}`, token: piece(r), index: c, value: values.text(r, c) }),
    python: (r, c) => stepPython(stateName(depth), r, c),
    move: (r, c) => change({ token: r, number: c }),
  };
});

const lowest = (values) => values.data.reduce((low, value) => Math.min(low, value), 1);

const movedMap = new HeatMap("moved-map", () => {
  const values = cosines(state.compare);
  const low = Math.min(lowest(values), 0.99);
  return {
    rows: count,
    cols: sizes.layers,
    palette: "sequential",
    space: spaceBelow("moved-map", 240),
    tallest: 40,
    cursor: [state.token, Math.max(state.depth - 1, 0)],
    rowLabel: piece,
    colLabel: (c) => `${c}`,
    shade: (r, c) => (values.at(c, r) - low) / (1 - low),
    write: (r, c) => values.at(c, r).toFixed(2),
    describe: (r, c) => t("hidden.cosine", { token: piece(r), layer: c, value: values.text(c, r) }),
    python: (r, c) => {
      const names = [stateName(c + 1), stateName(state.compare === "moved" ? c : 0)].map(
        (name) => `t['${name}'][0, ${r}]`,
      );
      return python(`torch.cosine_similarity(${names.join(", ")}, dim=0)`, { torch: true });
    },
    move: (r, c) => change({ token: r, depth: c + 1 }),
  };
});

function buildHidden() {
  $("depth").max = sizes.layers;
  $("depth").oninput = () => change({ depth: Number($("depth").value) });
  $("places").onclick = (event) => {
    const near = drawPlaces().map(([x, y]) => Math.hypot(event.offsetX - x, event.offsetY - y));
    change({ token: near.indexOf(Math.min(...near)) });
  };
}

/**
 * Draws labeled points on a plane, each with a line from its earlier place. The chosen one stands
 * out.
 * @param hue (i) => the color of a point and its label.
 * @returns the points on the canvas.
 */
function drawPlane(canvas, points, origins, names, chosenOne, hue) {
  const width = canvas.parentElement.clientWidth;
  const height = Math.min(360, Math.max(300, width / 2));
  const context = prepare(canvas, width, height);
  const place = ([x, y]) => [width / 2 + x * (width / 2 - 60), height / 2 - y * (height / 2 - 18)];
  const now = points.map(place);
  const before = origins.map(place);
  context.strokeStyle = color("line");
  context.strokeRect(0.5, 0.5, width - 1, height - 1);
  const taken = []; // places of labels, which are left out if no side is free
  const order = [...now.keys()].sort((a, b) => (b === chosenOne) - (a === chosenOne));
  for (const i of order) {
    const [x, y] = now[i];
    const chosen = i === chosenOne;
    context.globalAlpha = chosen ? 0.9 : 0.3;
    context.strokeStyle = color(chosen ? "cursor" : "accent");
    context.beginPath();
    context.moveTo(...before[i]);
    context.lineTo(x, y);
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = chosen ? color("cursor") : hue(i);
    context.beginPath();
    context.arc(x, y, 3, 0, 2 * Math.PI);
    context.fill();
    const wide = Math.min(context.measureText(names[i]).width, 100);
    const free = [
      [x + 6, y],
      [x - 6 - wide, y],
      [x - wide / 2, y - 14],
      [x - wide / 2, y + 14],
    ].find(
      ([left, middle]) =>
        left > 0 &&
        left + wide < width &&
        taken.every(([l, m, w]) => left > l + w || l > left + wide || Math.abs(middle - m) > 15),
    );
    if (!free) {
      continue;
    }
    context.textAlign = "left";
    fitted(context, names[i], ...free, 100);
    taken.push([...free, wide]);
  }
  return now;
}

const drawPlaces = () =>
  drawPlane(
    $("places"),
    places()[state.depth],
    places()[Math.max(state.depth - 1, 0)],
    tokens.map((token) => token.piece),
    state.token,
    (i) => color(SPECIAL.test(piece(i)) ? "soft" : "ink"),
  );

function drawHidden() {
  $("depth").value = state.depth;
  $("depth-number").textContent = `${state.depth} (h${state.depth})`;
  $("moved-caption").textContent = t(`hidden.${state.compare}.caption`);
  $("places-caption").textContent = t("hidden.places.caption", { depth: `h${state.depth}` });
  hiddenMap.draw();
  movedMap.draw();
  drawPlaces();
  signedLegend("hidden-legend", hiddenState(state.depth).typical());
  legend("moved-legend", "sequential", lowest(cosines(state.compare)).toFixed(2), "1.00");
}

// ---------------------------------------------------------------- 7 predictions

function buildPredictions() {
  const table = element("table", "", { id: "lens", tabIndex: 0 });
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  table.setAttribute("role", "grid");
  table.dataset.label = "predictions.label";
  head.append(element("th"));
  for (let depth = 0; depth <= sizes.layers; depth++) {
    head.append(element("th", `h${depth}`));
  }
  tokens.forEach((token, i) => {
    const row = body.insertRow();
    row.append(element("th", token.piece, { dir: "auto" }));
    for (let depth = 0; depth <= sizes.layers; depth++) {
      const cell = element("td", "", {
        id: `lens-${i}-${depth}`,
        dir: "auto",
        onclick: () => {
          change({ token: i, depth });
          tellWord();
        },
      });
      cell.setAttribute("role", "gridcell");
      row.append(cell);
    }
  });
  walk(
    table,
    () => [count, sizes.layers + 1],
    () => [state.token, state.depth],
    (token, depth) => {
      change({ token, depth });
      tellWord();
    },
  );
  $("lens").replaceWith(table);
}

function tellWord(rank = 0) {
  const best = shown.lens?.[state.depth]?.[state.token]?.[rank];
  if (!best) {
    return;
  }
  const line = python(`logit_lens(t)[0][${state.depth}, 0, ${state.token}, ${rank}]`, {
    names: "logit_lens, run",
  });
  tell(`h${state.depth} “${piece(state.token)}”: ${best[0]} ${best[1].toFixed(4)}`, null, line);
}

/** Scrolls a table sideways to a cell. On a phone the answer would be out of view on the right. */
function revealColumn(cell) {
  const box = cell.closest(".scroll");
  const head = cell.parentElement.firstChild.offsetWidth;
  const least = cell.offsetLeft + cell.offsetWidth - box.clientWidth;
  box.scrollLeft = clamp(box.scrollLeft, least, cell.offsetLeft - head);
}

function drawPredictions() {
  const { lens } = shown;
  $("predictions-say").textContent = t(lens ? "predictions.say" : "predictions.none");
  $("predictions").querySelector(".side").hidden = !lens;
  if (!lens) {
    return;
  }
  if (shown.live && !lens[0]) {
    fetchLens();
  }
  tokens.forEach((_, i) => {
    for (let depth = 0; depth <= sizes.layers; depth++) {
      const cell = $(`lens-${i}-${depth}`);
      const best = lens[depth]?.[i][0];
      cell.textContent = best ? best[0] : "…";
      cell.style.setProperty("--p", best ? best[1] : 0);
      cell.classList.toggle("on", i === state.token && depth === state.depth);
    }
  });
  const id = `lens-${state.token}-${state.depth}`;
  if (document.activeElement === $("lens")) {
    $(id).scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  $("lens").setAttribute("aria-activedescendant", id);
  revealColumn($(id));
  const list = (best, say) => {
    const words = element("div", "", { className: "words" });
    (best ?? []).forEach(([word, share], rank) => {
      const number = say
        ? numberNode(share.toFixed(4), () => say(rank))
        : element("span", share.toFixed(4));
      words.append(element("b", word, { dir: "auto" }), bar(share), number);
    });
    return words;
  };
  const parts = [
    element("h2", t("predictions.best", { token: piece(state.token), state: `h${state.depth}` })),
  ];
  if (shown.request.masked.includes(state.token)) {
    const token = live.tokens({ ...shown.request, masked: [] })[state.token].piece;
    parts.push(element("p", t("predictions.hidden", { token }), { className: "say" }));
  }
  if (shown.whole) {
    // Show the words before and after.
    if (!shown.whole.lens[0]) {
      fetchLens(shown.whole);
    }
    parts.push(
      element("h3", t("off.before")),
      list(shown.whole.lens?.[state.depth]?.[state.token]),
      element("h3", t("off.after")),
    );
  }
  $("best").replaceChildren(...parts, list(lens[state.depth]?.[state.token], tellWord));
}
