// The page's behaviour: whatever happens changes `state` and draws the open section anew.

function change(changes) {
  Object.assign(state, changes);
  draw();
}

// ---------------------------------------------------------------- the frame: tokens, tabs, language, theme

function buildFrame() {
  document.title = page.texts[0].slice(0, 60) || "minibert";
  tokens.forEach((token, i) => {
    const chip = element("span", token.piece, { id: `token-${i}`, dir: "auto", onclick: () => change({ token: i }) });
    chip.setAttribute("role", "option");
    chip.classList.toggle("special", SPECIAL.test(token.piece));
    chip.classList.toggle("second", token.type === 1);
    chip.classList.toggle("off", token.mask === 0);
    $("tokens").append(chip);
  });
  walk($("tokens"), () => [1, count], () => [0, state.token], (_, token) => { change({ token }); tell(nameOf(token)); });
  SECTIONS.forEach((name, i) => {
    const tab = element("button", "", { type: "button", id: `tab-${name}`, onclick: () => change({ section: name }) });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", name);
    tab.append(element("small", i + 1), element("span"));
    tab.lastChild.dataset.t = name;
    $("tabs").append(tab);
    $(name).setAttribute("role", "tabpanel");
    $(name).setAttribute("aria-labelledby", tab.id);
  });
  walk($("tabs"), () => [1, SECTIONS.length], () => [0, SECTIONS.indexOf(state.section)], (_, i) => {
    change({ section: SECTIONS[i] });
    $(`tab-${SECTIONS[i]}`).focus();
  });
  for (const name of ["language", "stage", "view", "compare"]) {
    for (const button of document.querySelectorAll(`[data-${name}]`)) {
      button.onclick = () => change({ [name]: button.dataset[name] });
    }
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = (theme) => { root.dataset.theme = theme; readPalettes(); grid = null; if (root.dataset.ready) draw(); };
  show(system.matches ? "dark" : "light");
  system.onchange = () => show(system.matches ? "dark" : "light");
  $("theme").onclick = () => show(root.dataset.theme === "dark" ? "light" : "dark");
  window.onresize = () => { grid = null; draw(); };
}

const nameOf = (i) => `${t("token")} ${i}: ${piece(i)}`;

function drawFrame() {
  root.lang = state.language;
  for (const item of document.querySelectorAll("[data-t]")) item.textContent = t(item.dataset.t);
  for (const item of document.querySelectorAll("[data-label]")) item.setAttribute("aria-label", t(item.dataset.label));
  for (const name of ["language", "stage", "view", "compare"]) {
    for (const button of document.querySelectorAll(`[data-${name}]`)) {
      button.setAttribute("aria-pressed", button.dataset[name] === state[name]);
    }
  }
  const shown = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, size.toLocaleString("en")]));
  $("model").replaceChildren(element("b", page.name), ` · ${t("summary", shown)}`);
  for (const name of SECTIONS) {
    const open = name === state.section;
    $(name).hidden = !open;
    $(`tab-${name}`).setAttribute("aria-selected", open);
    $(`tab-${name}`).tabIndex = open ? 0 : -1;
  }
  tokens.forEach((_, i) => $(`token-${i}`).setAttribute("aria-selected", i === state.token));
  $("tokens").setAttribute("aria-activedescendant", `token-${state.token}`);
  const chip = $(`token-${state.token}`), strip = $("tokens");
  if (chip.offsetLeft < strip.scrollLeft || chip.offsetLeft + chip.offsetWidth > strip.scrollLeft + strip.clientWidth) {
    strip.scrollLeft = chip.offsetLeft - strip.clientWidth / 2;
  }
}

/** Draws a colour scale with its ends beside it. */
function legend(id, palette, low, high) {
  const scale = element("i");
  scale.setAttribute("aria-hidden", "true");
  $(id).dataset.palette = palette;
  $(id).replaceChildren(element("span", low), scale, element("span", high));
}

const signedLegend = (id, most) => legend(id, "diverging", `≤ −${most.toFixed(2)}`, `≥ ${most.toFixed(2)}`);

// ---------------------------------------------------------------- 1 text

function buildText() {
  page.texts.forEach((text, which) => {
    const line = element("p", "", { dir: "auto" }), letters = Array.from(text); // offsets count characters
    let end = 0;
    tokens.forEach((token, i) => {
      const start = Math.max(token.start, end); // the pieces of one taken-apart Korean syllable share its place
      if (token.type !== which || token.end <= start) return;
      line.append(letters.slice(end, start).join(""));
      const span = element("span", letters.slice(start, token.end).join(""), { onclick: () => change({ token: i }) });
      span.dataset.token = i;
      line.append(span);
      end = token.end;
    });
    line.append(letters.slice(end).join(""));
    $("texts").append(line);
  });
  const body = element("tbody");
  tokens.forEach((token, i) => {
    const row = element("tr", "", { onclick: () => change({ token: i }) });
    const letters = Array.from(page.texts[token.type] ?? "").slice(token.start, token.end).join("");
    row.append(element("td", i), element("td", letters, { dir: "auto" }), element("td", token.piece, { dir: "auto" }));
    row.append(element("td", token.id), element("td", token.type), element("td", token.mask));
    row.classList.toggle("off", token.mask === 0);
    body.append(row);
  });
  $("pieces").append(element("thead"), body);
}

function drawText() {
  const hues = color("hues").split(",");
  for (const span of $("texts").querySelectorAll("span")) {
    span.style.background = hues[span.dataset.token % hues.length];
    span.classList.toggle("on", Number(span.dataset.token) === state.token);
  }
  const row = element("tr");
  for (const name of ["place", "characters", "piece", "id", "type", "mask"]) row.append(element("th", t(`text.${name}`)));
  $("pieces").tHead.replaceChildren(row);
  mark($("pieces"), state.token);
}

/** Marks one row of a table and brings it into view. */
function mark(table, chosen) {
  const rows = table.tBodies[0].rows;
  for (let i = 0; i < rows.length; i++) rows[i].classList.toggle("on", i === chosen);
  rows[chosen].scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------- 2 embeddings and 5 pooler: vectors, one a row

/** A map of a few vectors; `read(r)` gives the name of the numbers and the place of row r in them. */
function vectors(id, names, read) {
  return new HeatMap(id, () => ({
    rows: names.length, cols: sizes.hidden, palette: "diverging", space: 400, tallest: 64, left: 150,
    cursor: [Math.min(state.row, names.length - 1), state.number],
    rowLabel: (r) => t(names[r]),
    shade: (r, c) => { const [name, ...at] = read(r); return 0.5 + numbers[name].at(...at, c) / numbers[name].typical() / 2; },
    describe: (r, c) => {
      const [name, ...at] = read(r);
      return t("vector.cell", { row: t(names[r]), index: c, value: numbers[name].text(...at, c) });
    },
    move: (r, c) => change({ row: r, number: c }),
  }));
}

const SUMMED = ["word", "segment", "position", "sum"]; // small numbers; the normalised ones have a scale of their own
const EMBEDDINGS = [...SUMMED, "normalized"].map((name) => `embeddings.${name}`);
const embeddingsMap = vectors("embeddings-map", EMBEDDINGS, (r) => (r < 4 ? [SUMMED[r], state.token] : ["hidden", 0, state.token]));
const poolerMap = vectors("pooler-map", ["pooler.0", "pooler.1", "pooler.2"], (r) => ["pooler", r]);

function drawEmbeddings() {
  const token = tokens[state.token];
  $("embeddings-sum").textContent =
    `h0[${state.token}] = LayerNorm( ${t("embeddings.word")}[${token.id}] + ${t("embeddings.segment")}[${token.type}] + ` +
    `${t("embeddings.position")}[${state.token}] ),  ${token.id} = ${token.piece}`;
  embeddingsMap.draw();
  const most = SUMMED.map((name) => numbers[name].typical());
  const scales = EMBEDDINGS.map((name, r) => `${t(name)} ±${(most[r] ?? numbers.hidden.typical()).toFixed(2)}`);
  legend("embeddings-legend", "diverging", "−", `+      ${scales.join("   ")}`);
}

function drawPooler() {
  const has = Boolean(numbers.pooler);
  $("pooler-map").hidden = !has;
  $("pooler").querySelector(".say").textContent = t(has ? "pooler.say" : "pooler.none");
  if (!has) return;
  poolerMap.draw();
  signedLegend("pooler-legend", numbers.pooler.typical());
  if (!page.next) return;
  const list = element("div", "", { className: "words" });
  ["follows", "random"].forEach((name, i) => {
    list.append(element("span", t(`pooler.${name}`)), bar(page.next[i]), element("span", page.next[i].toFixed(4)));
  });
  $("next").replaceChildren(element("h2", t("pooler.next")), list);
}

// ---------------------------------------------------------------- 3 attention

const isHidden = (key) => state.stage === "masked" && tokens[key].mask === 0;

const attentionMap = new HeatMap("attention-map", () => {
  const { layer, head, stage } = state, values = numbers[stage === "probabilities" ? stage : "scores"];
  const most = values.typical();
  return {
    rows: count, cols: count, square: true, slanted: true, top: 78, space: spaceBelow("attention-map", 28), cursor: [state.token, state.key],
    rowLabel: piece, colLabel: piece,
    palette: stage === "probabilities" ? "sequential" : "diverging",
    // the root of a probability, so that small ones can be seen
    shade: stage === "probabilities" ? (r, c) => Math.sqrt(values.at(layer, head, r, c))
      : (r, c) => (isHidden(c) ? null : 0.5 + values.at(layer, head, r, c) / most / 2),
    describe: (r, c) => t("attention.cell", {
      layer: layer + 1, head: head + 1, query: piece(r), key: piece(c),
      value: isHidden(c) ? t("attention.hidden") : values.text(layer, head, r, c),
    }),
    move: (r, c) => change({ token: r, key: c }),
  };
});

let grid = null; // all maps, small: drawn once for a size and a theme
const SPACE = 22; // beside and above the grid, for its numbers

/** Every map as a thumbnail, on one canvas; a pixel shows the largest of the probabilities that fall on it. */
function thumbnails(width, height, cell, ratio) {
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
  const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const { values, scale } = numbers.probabilities;
  const shades = Uint32Array.from({ length: scale + 1 }, (_, p) => pixel("sequential", Math.sqrt(p / scale)));
  const [wide, high] = cell.map((size) => Math.max(1, Math.floor((size - 2) * ratio)));
  const starts = (size) => Array.from({ length: size + 1 }, (_, i) => Math.floor((i * count) / size));
  const cols = starts(wide), rows = starts(high);
  for (let map = 0; map < sizes.layers * sizes.heads; map++) {
    const left = Math.round((SPACE + (map % sizes.heads) * cell[0] + 1) * ratio);
    const top = Math.round((SPACE + Math.floor(map / sizes.heads) * cell[1] + 1) * ratio);
    for (let y = 0; y < high; y++) {
      for (let x = 0; x < wide; x++) {
        let most = 0;
        for (let r = rows[y]; r < Math.max(rows[y + 1], rows[y] + 1); r++) {
          const row = (map * count + r) * count;
          for (let c = cols[x]; c < Math.max(cols[x + 1], cols[x] + 1); c++) most = Math.max(most, values[row + c]);
        }
        pixels[(top + y) * width + left + x] = shades[most];
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function drawGrid() {
  const canvas = $("grid"), { layers, heads } = sizes, ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = Math.min(spaceBelow("grid"), SPACE + ((width - SPACE) / heads) * layers);
  const cell = [(width - SPACE) / heads, (height - SPACE) / layers];
  const context = prepare(canvas, width, height);
  if (!grid || grid.width !== canvas.width || grid.height !== canvas.height) {
    grid = thumbnails(canvas.width, canvas.height, cell, ratio);
  }
  context.drawImage(grid, 0, 0, width, height);
  context.fillStyle = color("soft");
  context.textAlign = "center";
  for (let a = 0; a < heads; a++) context.fillText(a + 1, SPACE + (a + 0.5) * cell[0], 11);
  for (let l = 0; l < layers; l++) context.fillText(l + 1, 10, SPACE + (l + 0.5) * cell[1]);
  context.strokeStyle = color("cursor");
  context.lineWidth = 2;
  context.strokeRect(SPACE + state.head * cell[0], SPACE + state.layer * cell[1], cell[0] - 1, cell[1] - 1);
  canvas.at = (event) => [Math.floor((event.offsetY - SPACE) / cell[1]), Math.floor((event.offsetX - SPACE) / cell[0])];
}

const headName = (layer, head) => t("attention.chosen", { layer: layer + 1, head: head + 1 });
const chooseHead = (layer, head) => { change({ layer, head }); tell(headName(layer, head)); };

function buildAttention() {
  const canvas = $("grid");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  const inside = ([l, a]) => l >= 0 && a >= 0 && l < sizes.layers && a < sizes.heads;
  canvas.onpointermove = (event) => { const at = canvas.at(event); if (inside(at)) tell(headName(...at), event); else tell(""); };
  canvas.onpointerdown = (event) => { const at = canvas.at(event); if (inside(at)) change({ layer: at[0], head: at[1] }); };
  canvas.onpointerleave = () => tell("");
  canvas.onfocus = () => tell(headName(state.layer, state.head));
  walk(canvas, () => [sizes.layers, sizes.heads], () => [state.layer, state.head], chooseHead);
  for (const [name, most] of [["layer", sizes.layers], ["head", sizes.heads]]) {
    $(name).max = most;
    $(name).oninput = () => change({ [name]: $(name).value - 1 });
  }
  $("lines").onpointerdown = (event) => {
    const i = Math.floor(event.offsetY / lineHeight());
    if (i < count) change(event.offsetX < $("lines").clientWidth / 2 ? { token: i } : { key: i });
  };
}

const lineHeight = () => clamp(spaceBelow("lines-scroll") / count, 18, 30);

function drawLines() {
  const canvas = $("lines"), height = lineHeight(), width = canvas.clientWidth, values = numbers.probabilities;
  const context = prepare(canvas, width, height * count), left = 96, right = width - 150;
  const line = (i, j, alpha, weight) => {
    context.globalAlpha = alpha;
    context.lineWidth = weight;
    context.beginPath();
    context.moveTo(left, (i + 0.5) * height);
    context.lineTo(right, (j + 0.5) * height);
    context.stroke();
  };
  context.strokeStyle = color("soft");
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < count; j++) {
      const p = values.at(state.layer, state.head, i, j);
      if (p >= 0.02 && i !== state.token) line(i, j, p * 0.35, 1);
    }
  }
  context.strokeStyle = color("accent");
  for (let j = 0; j < count; j++) {
    const p = values.at(state.layer, state.head, state.token, j);
    if (p >= 0.001) line(state.token, j, 0.15 + p * 0.85, 1 + 4 * p);
  }
  for (let i = 0; i < count; i++) {
    const y = (i + 0.5) * height;
    context.globalAlpha = 1;
    context.fillStyle = color(i === state.token ? "accent" : "ink");
    context.textAlign = "right";
    fitted(context, piece(i), left - 6, y, left - 10);
    context.fillStyle = color(i === state.key ? "cursor" : "ink");
    context.textAlign = "left";
    fitted(context, piece(i), right + 6, y, 90);
    context.textAlign = "right";
    context.globalAlpha = 0.35 + 0.65 * Math.sqrt(values.at(state.layer, state.head, state.token, i));
    context.fillText(values.text(state.layer, state.head, state.token, i), width - 2, y);
  }
  const scroll = $("lines-scroll"), y = state.token * height;
  if (y < scroll.scrollTop || y + height > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = y - scroll.clientHeight / 2;
}

/** One row of the map as a table: score, mask and probability of every key. */
function drawSteps() {
  const head = element("tr"), body = element("tbody"), at = [state.layer, state.head, state.token];
  for (const name of ["key", "scores", "masked", "probabilities"]) head.append(element("th", t(`attention.${name}`)));
  tokens.forEach((token, j) => {
    const row = element("tr", "", { onclick: () => change({ key: j }) }), share = element("td", numbers.probabilities.text(...at, j));
    share.append(bar(numbers.probabilities.at(...at, j)));
    row.append(element("td", token.piece, { dir: "auto" }), element("td", numbers.scores.text(...at, j)));
    row.append(element("td", token.mask ? "0" : "−∞"), share);
    row.classList.toggle("off", token.mask === 0);
    body.append(row);
  });
  const header = element("thead");
  header.append(head);
  $("steps").replaceChildren(header, body);
  mark($("steps"), state.key);
}

function drawAttention() {
  for (const name of ["layer", "head"]) {
    $(name).value = state[name] + 1;
    $(`${name}-number`).textContent = state[name] + 1;
  }
  $("map-caption").textContent = t("attention.caption", { layer: state.layer + 1, head: state.head + 1 });
  const lines = state.view === "lines";
  $("side-caption").textContent = t(lines ? "attention.from" : "attention.row", { token: piece(state.token) });
  $("lines-scroll").hidden = !lines;
  $("steps-scroll").hidden = lines;
  drawGrid();
  attentionMap.draw();
  if (state.stage === "probabilities") legend("attention-legend", "sequential", "0", "1");
  else signedLegend("attention-legend", numbers.scores.typical());
  if (lines) drawLines(); else drawSteps();
}

// ---------------------------------------------------------------- 4 hidden states

const hiddenMap = new HeatMap("hidden-map", () => {
  const values = numbers.hidden, most = values.typical(), { depth } = state;
  return {
    rows: count, cols: sizes.hidden, palette: "diverging", space: spaceBelow("hidden-map", 30), tallest: 40, cursor: [state.token, state.number],
    rowLabel: piece,
    shade: (r, c) => 0.5 + values.at(depth, r, c) / most / 2,
    describe: (r, c) => t("hidden.cell", { layer: depth, token: piece(r), index: c, value: values.text(depth, r, c) }),
    move: (r, c) => change({ token: r, number: c }),
  };
});

const lowest = (values) => values.values.reduce((low, value) => Math.min(low, value), values.scale) / values.scale;

const movedMap = new HeatMap("moved-map", () => {
  const values = numbers[state.compare], low = Math.min(lowest(values), 0.99);
  return {
    rows: count, cols: sizes.layers, palette: "sequential", space: spaceBelow("moved-map", 30), tallest: 40,
    cursor: [state.token, Math.max(state.depth - 1, 0)], rowLabel: piece, colLabel: (c) => `${c + 1}`,
    shade: (r, c) => (values.at(c, r) - low) / (1 - low),
    write: (r, c) => values.at(c, r).toFixed(2),
    describe: (r, c) => t("hidden.cosine", { token: piece(r), layer: c + 1, value: values.text(c, r) }),
    move: (r, c) => change({ token: r, depth: c + 1 }),
  };
});

function drawHidden() {
  $("depth").value = state.depth;
  $("depth-number").textContent = state.depth || "0 = h0";
  $("moved-caption").textContent = t(`hidden.${state.compare}.caption`);
  hiddenMap.draw();
  movedMap.draw();
  signedLegend("hidden-legend", numbers.hidden.typical());
  legend("moved-legend", "sequential", lowest(numbers[state.compare]).toFixed(2), "1.00");
}

// ---------------------------------------------------------------- 6 predictions

function buildPredictions() {
  if (!lens) return;
  const table = $("lens"), head = table.createTHead().insertRow(), body = table.createTBody();
  table.tabIndex = 0;
  table.setAttribute("role", "grid");
  head.append(element("th"));
  for (let l = 0; l <= sizes.layers; l++) head.append(element("th", l));
  tokens.forEach((token, i) => {
    const row = body.insertRow();
    row.append(element("th", token.piece, { dir: "auto" }));
    lens.forEach((layer, depth) => {
      const cell = element("td", layer[i][0][0], { id: `lens-${i}-${depth}`, onclick: () => change({ token: i, depth }), dir: "auto" });
      cell.setAttribute("role", "gridcell");
      cell.style.setProperty("--p", layer[i][0][1]);
      row.append(cell);
    });
  });
  walk(table, () => [count, sizes.layers + 1], () => [state.token, state.depth], (token, depth) => change({ token, depth }));
}

function drawPredictions() {
  $("predictions-say").textContent = t(lens ? "predictions.say" : "predictions.none");
  if (!lens) return;
  $("lens").querySelector(".on")?.classList.remove("on");
  const id = `lens-${state.token}-${state.depth}`;
  $(id).classList.add("on");
  $(id).scrollIntoView({ block: "nearest", inline: "nearest" });
  $("lens").setAttribute("aria-activedescendant", id);
  const list = element("div", "", { className: "words" });
  for (const [word, share] of lens[state.depth][state.token]) {
    list.append(element("b", word, { dir: "auto" }), bar(share), element("span", share.toFixed(4)));
  }
  const title = t("predictions.best", { token: piece(state.token), layer: state.depth });
  $("best").replaceChildren(element("h2", title), list);
}

// ---------------------------------------------------------------- start

const DRAW = { text: drawText, embeddings: drawEmbeddings, attention: drawAttention, hidden: drawHidden, pooler: drawPooler, predictions: drawPredictions };

function draw() {
  drawFrame();
  DRAW[state.section]();
}

async function start() {
  await Promise.all(Object.entries(page.arrays).map(async ([name, packed]) => { numbers[name] = await unpack(packed); }));
  $("depth").max = sizes.layers;
  $("depth").oninput = () => change({ depth: Number($("depth").value) });
  for (const build of [buildFrame, buildText, buildAttention, buildPredictions]) build();
  draw();
  root.dataset.ready = "yes";
}

start();
