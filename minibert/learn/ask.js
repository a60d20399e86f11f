// The panel "Ask": common questions about BERT, and a glossary. The page finds the nearest entries
// with its own sentence vectors. A term is explained in the list. A question is answered in three
// sentences, and opens its door: a state of the page that shows the answer, with its own address
// (#ask=...). When the reader leaves a door, everything is as it was before.

const questions = [];
/** All entries: the questions, and the terms in the same form. */
const entries = [];

/** Decodes the questions and terms, before anything is built from them. */
async function readEntries() {
  const text = new TextDecoder().decode(await inflate(page.entries));
  const { questions: all, terms, spellings } = JSON.parse(text);
  Object.assign(page, { terms, spellings });
  questions.push(...all);
  entries.push(...questions, ...Object.entries(terms).map(asEntry));
}

function asEntry([name, term]) {
  const texts = ["en", "ko"].map((language) => {
    const { forms, say, ask: [question, ...also] = [] } = term[language];
    return [language, { question: question ?? forms[0], also: [...also, ...forms], answer: say }];
  });
  return { id: name, isTerm: true, ...Object.fromEntries(texts) };
}

const NEAREST = 3;
// Where no vectors are shipped, each takes some 40 ms. Then only the entries with the highest scores
// by letters and terms are ranked by vectors, and of each only the phrasings nearest by letters.
const CANDIDATES = page.asked ? Infinity : 8;
const CANDIDATE_PHRASINGS = page.asked ? Infinity : 3;
const TERMS_WEIGHT = 0.4;
const UNKNOWN_WEIGHT = 0.3;
const BEGINNING = 6; // letters, those of about two Hangul syllables
// An entry below these scores does not fit. Of the phrasings in Ask that find their own entry when
// they are left out, 199 in 200 score higher. A test holds them against questions in other words.
const FLOORS = { letters: 0.4, vectors: 1.4 };

/** Default state of a door, as on a page that was just opened. */
const FRESH = {
  stage: "probabilities",
  view: "lines",
  compare: "moved",
  unit: "words",
  threshold: 0,
  other: "",
  same: "",
  tour: -1,
  row: 0,
  step: 0,
  key: 0,
  token: 0,
};

/** Returns the language of the model. Doors show texts in that language. */
const modelLanguage = () => (live.tokenizer.ids.has(EXAMPLES.ko[0]) ? "ko" : "en");
const languageOf = (text) => (/\p{Script=Hangul}/u.test(text) ? "ko" : "en");
const askedQuestion = () => questions.find(({ id }) => id === state.ask);

/** Fills in the state of a door if the address names only a question. */
function throughDoor(said) {
  const question = questions.find(({ id }) => id === said.get("ask"));
  if (!live || !question || said.has("section")) {
    return said;
  }
  const door = { ...FRESH, ...question.door[modelLanguage()], ask: question.id };
  const address = new URLSearchParams(door);
  for (const [name, value] of said) {
    address.set(name, value);
  }
  return address;
}

// ---------------------------------------------------------------- the nearest questions

const phrasings = ({ question, also }) => [question, ...also];

/** Returns how much something found in `count` of the entries tells about an entry. */
const rarity = (count) => Math.log(entries.length / (count || 1)) + 0.1;

/** Counts in how many of the sets each member occurs. */
function countSets(sets) {
  const counts = new Map();
  for (const member of sets.flatMap((set) => [...set])) {
    counts.set(member, (counts.get(member) ?? 0) + 1);
  }
  return counts;
}

/**
 * Returns a function of one argument that computes each value once. A rejected promise is not kept,
 * so that the next call tries again.
 */
function memoized(compute) {
  const known = new Map();
  return (key) => {
    if (!known.has(key)) {
      const value = compute(key);
      known.set(key, value);
      value?.catch?.(() => known.delete(key));
    }
    return known.get(key);
  };
}

const tokensOf = (text) => live.tokens({ text: inUsualForms(text) });

/** The ids of the pieces in an entry, in the language of the model. */
const piecesOf = memoized(
  (one) =>
    new Set(phrasings(one[modelLanguage()]).flatMap((text) => tokensOf(text).map(({ id }) => id))),
);

/** Returns in how many entries each piece occurs, by its id. */
const pieceCounts = () => (pieceCounts.all ??= countSets(entries.map(piecesOf)));

/**
 * Returns the shipped vectors of all phrasings by their texts, or an empty map for a model that has
 * none. scripts/measure_scenes.py computed them with `computedVector`.
 */
const shippedVectors = memoized(async () => {
  if (!page.asked) {
    return new Map();
  }
  const { middle, scale, whole } = page.asked;
  const numbers = new Int8Array(await inflate(whole));
  const texts = entries.flatMap((one) => phrasings(one[modelLanguage()]));
  const row = (i) => middle.map((value, c) => value + scale * numbers[i * middle.length + c]);
  return new Map(texts.map((text, i) => [text, row(i)]));
});

const vectorOf = memoized(
  async (text) => (await shippedVectors()).get(text) ?? computedVector(text),
);

/**
 * Returns the sentence vector of a text: the mean of its last states, in which rare pieces weigh
 * more. "What", "does" and [CLS] stand in most questions and tell them apart least.
 */
function computedVector(text) {
  const tokens = tokensOf(text);
  const column = (name) => tokens.map((token) => token[name]);
  return live.ask("vector", {
    ids: column("id"),
    types: column("type"),
    mask: column("mask"),
    weights: column("id").map((id) => rarity(pieceCounts().get(id))),
  });
}

const apart = (vector, middle) => vector.map((value, c) => value - middle[c]);

/**
 * Returns the mean of the vectors of every fourth question, which is close to that of all. Vectors
 * are centered on it, because what all questions have in common does not tell them apart.
 */
const middleOf = memoized(async () => {
  const vectors = [];
  for (const one of entries.filter((_, i) => i % 4 === 0)) {
    // One at a time, so that other computations can run in between.
    vectors.push(await vectorOf(one[modelLanguage()].question));
  }
  return centerOf(vectors);
});

/**
 * Returns the words of a text. Hangul is decomposed into its letters, so that the forms of a Korean
 * verb have most letters in common. [CLS] and CLS are one word.
 */
const wordsIn = (text) =>
  inUsualForms(text)
    .toLowerCase()
    .split(/[^\p{L}\p{N}#]+/u)
    .filter(Boolean)
    .map((word) => word.normalize("NFD"));

/**
 * Returns the beginnings of the words of a text, which the forms of a word have in common. A Latin
 * name and its Korean particle are two words.
 */
const beginnings = (text) =>
  new Set(
    wordsIn(text)
      .flatMap((word) => word.match(/\p{Script=Hangul}+|\P{Script=Hangul}+/gu))
      .map((word) => word.slice(0, BEGINNING)),
  );

/** Returns the trigrams of the words of a text, including word boundaries. */
function trigrams(text) {
  const found = new Set();
  for (const word of wordsIn(text)) {
    const letters = Array.from(` ${word} `);
    for (let i = 0; i + 2 < letters.length; i++) {
      found.add(letters.slice(i, i + 3).join(""));
    }
  }
  return found;
}

/** Returns the terms of the glossary that a text names. */
function termsIn(text) {
  const { terms, pattern } = glossary();
  const found = inUsualForms(text).toLowerCase().match(pattern) ?? [];
  return new Set(found.map((form) => terms.get(joined(form))));
}

/** Returns a form as one word, as some write it: "fine tuning" and "fine-tuning" are one term. */
const joined = (form) => form.toLowerCase().replace(/[ -]/g, "");

/** Returns a pattern that finds forms in a text in lower case, the longest first. */
function finder(forms) {
  const some = [...forms]
    .sort((a, b) => b.length - a.length)
    .map((form) => form.replace(/[[\]]/g, "\\$&").replace(/[ -]/g, "[ -]?"));
  return new RegExp(`(?<![a-z])(${some.join("|")})(?![a-z])`, "g");
}

/** The terms by their forms in both languages: Korean texts name many in Latin letters. */
const glossary = memoized(() => {
  const named = Object.entries(page.terms).flatMap(([name, { en, ko }]) =>
    [...en.forms, ...ko.forms].map((form) => [form.toLowerCase(), name]),
  );
  return {
    terms: new Map(named.map(([form, name]) => [joined(form), name])),
    pattern: finder(named.map(([form]) => form)),
  };
});

/**
 * The usual Korean form of each term by its English forms, and of other words by their spellings.
 * What Korean texts usually write in Latin letters, such as "[CLS]" or "GELU", stays.
 */
const usualForms = memoized(() => {
  const terms = Object.values(page.terms).map(({ en, ko }) => [
    ko.forms[0],
    en.forms.filter((form) => !ko.forms.includes(form)),
  ]);
  const forms = [...terms, ...Object.entries(page.spellings)].flatMap(([usual, others]) =>
    others.map((form) => [form.toLowerCase(), usual]),
  );
  return {
    usual: new Map(forms.map(([form, usual]) => [joined(form), usual])),
    pattern: finder(forms.map(([form]) => form)),
  };
});

/**
 * Returns a Korean text with every term in one form. Some write "loss" or "label", some "손실" or
 * "레이블": neither letters nor vectors would show that these are the same.
 */
const inUsualForms = memoized((text) => {
  if (languageOf(text) !== "ko") {
    return text;
  }
  const { usual, pattern } = usualForms();
  return text.toLowerCase().replace(pattern, (form) => usual.get(joined(form)));
});

/** What is compared of an entry, for every phrasing or for its whole text. */
const wordsOf = memoized((texts) => {
  const some = phrasings(texts);
  const whole = [...some, texts.answer].join(" ");
  return {
    some: some.map(trigrams),
    whole: trigrams(whole),
    beginnings: beginnings(whole),
    terms: some.map(termsIn),
  };
});

/** Returns a function that weighs trigrams by their rarity in a language. */
const weigher = memoized((language) => {
  const counts = countSets(entries.map((one) => wordsOf(one[language]).whole));
  return (grams) => [...grams].reduce((sum, gram) => sum + rarity(counts.get(gram)), 0);
});

/**
 * Returns two functions of a set of trigrams that compare it with those of a text, from 0 to 1. Rare
 * ones weigh more. `both`: of what the two have together, the part that both have. `covered`: of the
 * text, the part that the set has.
 */
function comparerOf(text, language) {
  const weigh = weigher(language);
  const grams = trigrams(text);
  const total = weigh(grams) || 1;
  const common = (own) => weigh([...grams].filter((gram) => own.has(gram)));
  return {
    both: (own) => (2 * common(own)) / (total + weigh(own)),
    covered: (own) => common(own) / total,
  };
}

/**
 * Returns for each entry how much its trigrams agree with those of a text: how much of the text the
 * entry covers, and, with half the weight, what its nearest phrasing has in common with the text.
 */
function sharedLetters(text, language) {
  const { both, covered } = comparerOf(text, language);
  return entries.map((one) => {
    const { some, whole } = wordsOf(one[language]);
    return covered(whole) + Math.max(...some.map(both)) / 2;
  });
}

/**
 * Returns for each entry which share of the terms of a text its phrasings name on average. A term
 * such as "head" occurs in many entries, so its trigrams weigh little, but it says what a question
 * is about.
 */
function sharedTerms(text, language) {
  const wanted = [...termsIn(text)];
  return entries.map((one) => {
    const { terms } = wordsOf(one[language]);
    const named = terms.flatMap((own) => wanted.filter((term) => own.has(term)));
    return named.length / (terms.length * wanted.length || 1);
  });
}

/** Returns in how many entries each beginning of a word occurs. */
const beginningCounts = memoized((language) =>
  countSets(entries.map((one) => wordsOf(one[language]).beginnings)),
);

/**
 * Returns the share of words in a text that no entry has, where rare words weigh more. A question
 * about another subject has many, even if a word such as "head" leads it to an entry.
 */
function unknownShare(text, language) {
  const counts = beginningCounts(language);
  const weigh = (some) => some.reduce((sum, one) => sum + rarity(counts.get(one)), 0);
  const all = [...beginnings(text)];
  return weigh(all.filter((one) => !counts.has(one))) / (weigh(all) || 1);
}

/** Returns entries and scores as pairs, the highest score first. */
const ranked = (pairs) => pairs.sort((a, b) => b[1] - a[1]);

/**
 * Ranks all entries by the trigrams and the terms that they share with a text. Unknown words lower
 * all scores alike.
 */
function rankByLetters(text) {
  const language = languageOf(text);
  const letters = sharedLetters(text, language);
  const terms = sharedTerms(text, language);
  const unknown = UNKNOWN_WEIGHT * unknownShare(text, language);
  return ranked(entries.map((one, i) => [one, letters[i] + TERMS_WEIGHT * terms[i] - unknown]));
}

/** Returns the phrasings of an entry that have most letters in common with a text. */
function candidatePhrasings(one, text) {
  const language = modelLanguage();
  const { both } = comparerOf(text, language);
  const { some } = wordsOf(one[language]);
  return ranked(phrasings(one[language]).map((phrasing, i) => [phrasing, both(some[i])]))
    .slice(0, CANDIDATE_PHRASINGS)
    .map(([phrasing]) => phrasing);
}

/**
 * Ranks the best entries by letters anew: to each score come the cosine of the entry's nearest
 * phrasing, and that of the mean of its phrasings. Returns null as soon as `stop` says that the
 * text is no longer wanted.
 */
async function rankByVectors(text, stop = () => false) {
  const middle = await middleOf();
  const wanted = apart(await vectorOf(text), middle);
  const pairs = [];
  for (const [one, score] of rankByLetters(text).slice(0, CANDIDATES)) {
    const vectors = [];
    for (const phrasing of candidatePhrasings(one, text)) {
      if (stop()) {
        return null;
      }
      vectors.push(apart(await vectorOf(phrasing), middle));
    }
    const nearest = Math.max(...vectors.map((vector) => cosine(wanted, vector)));
    pairs.push([one, score + nearest + cosine(wanted, centerOf(vectors))]);
  }
  return ranked(pairs);
}

/** Prepares the search in a language, with pauses, because all at once takes half a second. */
const prepareSearch = memoized(async (language) => {
  for (const one of entries) {
    wordsOf(one[language]);
    if (language === modelLanguage()) {
      piecesOf(one);
    }
    await new Promise((go) => setTimeout(go));
  }
});

// ---------------------------------------------------------------- the panel

function buildAsk() {
  if (!live || !questions.length) {
    $("ask").remove();
    $("ask-open").remove();
    return;
  }
  $("ask-open").onclick = () => {
    if ($("ask").hidden) {
      openAsk();
    } else {
      closeAsk();
    }
  };
  $("ask-close").onclick = closeAsk;
  $("ask-return").hidden = !page.lesson;
  $("ask-return").onclick = closeAsk;
  $("ask-fold").onclick = () => foldAnswer(!$("ask").hasAttribute("data-folded"));
  $("ask-other").onclick = async () => {
    await leaveDoor();
    $("ask-box").focus();
  };
  $("ask-box").oninput = () => {
    change({ ask: "" });
    listQuestions();
  };
  $("ask-whole").onclick = () => {
    $("ask-box").value = "";
    listQuestions();
    $("ask-box").focus();
  };
  $("ask-box").onkeydown = (event) => {
    const isSearching = $("ask-box").value.trim() && $("ask-list").dataset.by === "all";
    if (event.key === "Enter" && !isSearching) {
      $("ask-list").querySelector("button")?.click();
    }
  };
  $("ask").addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      closeAsk();
    }
  });
}

function openAsk() {
  $("ask").hidden = false;
  drawAsk();
  listQuestions();
  $("ask-box").focus();
  prepareSearch(modelLanguage())
    .then(() => middleOf())
    .catch(() => {}); // a question tries again
}

/** Leaves a door. The page returns to what the reader was doing before. */
async function leaveDoor() {
  if (askedQuestion() && work) {
    Object.assign(state, work, {
      ask: "",
      language: state.language,
      theme: state.theme,
      guesses: state.guesses,
    });
    work = null;
    await take();
    draw();
  } else if (page.lesson && askedQuestion()) {
    await enter(state.scene);
  } else {
    change({ ask: "" });
  }
}

async function closeAsk() {
  const isBeside = page.lesson && askedQuestion();
  $("ask").hidden = true;
  await leaveDoor();
  if (!isBeside) {
    $("ask-open").focus(); // otherwise the restarted scene has the focus
  }
}

/**
 * Lists all questions, or those nearest to the typed text. Trigrams and terms rank them at once,
 * sentence vectors as soon as they are ready.
 */
async function listQuestions() {
  const text = $("ask-box").value.trim();
  listQuestions.text = text;
  if (!text) {
    fillQuestions("all", questions, state.language);
    return;
  }
  const isOld = () => listQuestions.text !== text;
  const language = languageOf(text);
  await prepareSearch(language);
  if (isOld()) {
    return;
  }
  fillNearest("letters", rankByLetters(text), language);
  if (language !== modelLanguage()) {
    return;
  }
  // Wait for a pause in typing, then use only the newest text.
  await new Promise((wait) => setTimeout(wait, 120));
  const found = isOld() ? null : await rankByVectors(text, isOld).catch(() => null);
  if (found && !isOld()) {
    fillNearest("vectors", found, language);
  }
}

/** Lists the nearest entries, and says so if not even the nearest one fits. */
function fillNearest(by, found, language) {
  const fits = found[0][1] >= FLOORS[by];
  fillQuestions(
    by,
    found.slice(0, NEAREST).map(([entry]) => entry),
    language,
    fits,
  );
}

function fillQuestions(by, list, language, fits = true) {
  $("ask-list").dataset.by = by;
  $("ask-list").toggleAttribute("data-far", !fits);
  $("ask-say").textContent = t(fits ? `ask.${by}` : "ask.none", { count: list.length });
  $("ask-whole").hidden = list.length === questions.length;
  $("ask-whole").textContent = t("ask.whole", { count: questions.length });
  $("ask-list").replaceChildren(
    ...list.map((one) => {
      const item = element("li");
      const button = element("button", one[language].question, { type: "button", lang: language });
      item.append(button);
      button.onclick = () => (one.isTerm ? unfoldTerm(item, button, one[language]) : openDoor(one));
      if (one.isTerm) {
        button.setAttribute("aria-expanded", "false");
      }
      return item;
    }),
  );
}

/** Shows or hides the explanation of a term below its button. */
function unfoldTerm(item, button, { answer }) {
  const isOpen = item.querySelector("p") !== null;
  button.setAttribute("aria-expanded", !isOpen);
  if (isOpen) {
    item.querySelector("p").remove();
  } else {
    item.append(element("p", answer));
  }
}

let work = null; // the state in which the reader opened a door

/** Shows the answer through its address, so that the browser's back button works. */
function openDoor({ id }) {
  if (!state.ask) {
    work = { ...state };
  }
  location.hash = `ask=${id}`;
}

function drawAsk() {
  if (!$("ask")) {
    return;
  }
  const question = askedQuestion();
  if (question) {
    $("ask").hidden = false;
  }
  $("ask-open").setAttribute("aria-expanded", !$("ask").hidden);
  const isChosenHere = question && $("ask-choose").contains(document.activeElement);
  $("ask-choose").hidden = Boolean(question);
  $("ask-answer").hidden = !question;
  $("ask-box").placeholder = t("ask.placeholder");
  if (drawAsk.language !== state.language) {
    drawAsk.language = state.language;
    if (!$("ask").hidden) {
      listQuestions();
    }
  }
  if (question) {
    const { question: title, answer } = question[state.language];
    $("ask-title").textContent = title;
    $("ask-text").textContent = answer;
    offerScene(sceneOf(question));
    if (drawAsk.answer !== answer) {
      drawAsk.answer = answer;
      foldAnswer(false);
    }
  }
  if (isChosenHere) {
    $("ask-title").focus(); // the list that had the focus is hidden
  }
  if (state.section === "head" && !$("film").hidden) {
    openFilm();
  }
}

/** Returns the index of the scene that shows the answer to a question, or -1. */
function sceneOf({ scene }) {
  const places = page.lesson ? scene.map((id) => SCENES.findIndex((own) => own.id === id)) : [];
  return places.find((place) => place >= 0) ?? -1;
}

/** Shows a button that leads to a scene. */
function offerScene(place) {
  const button = $("ask-scene");
  button.hidden = place < 0;
  if (place >= 0) {
    const title = t(`lesson.${SCENES[place].id}.title`);
    button.textContent = t("ask.scene", { number: place + 1, title });
    button.onclick = () => {
      $("ask").hidden = true;
      work = null;
      enter(place);
    };
  }
}

/** Folds the answer, or unfolds it. Only a narrow page folds it, as the style sheet says. */
function foldAnswer(folded) {
  $("ask").toggleAttribute("data-folded", folded);
  $("ask-fold").textContent = folded ? "▾" : "▴";
  $("ask-fold").setAttribute("aria-expanded", !folded);
}
