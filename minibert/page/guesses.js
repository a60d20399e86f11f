// What the reader predicts in each scene: a prediction counts until the reader acts, and is kept from then on.
//
// `state.guesses` holds all of them as the address keeps them, such as "pieces.1.1.closed_numbers.none.0.open": the scene, the
// choice, the choice that turned out right, and whether that is final. It is final once the scene's own button was pressed:
// while the reader is typing another sentence, the outcome may still change.

function keptGuesses() {
  const kept = new Map();
  for (const entry of state.guesses.split("_").filter(Boolean)) {
    const [id, guess, outcome, how] = entry.split(".");
    if (how === undefined) {
      continue;
    }
    kept.set(id, {
      guess: guess === "none" ? -1 : Number(guess),
      outcome: Number(outcome),
      final: how === "closed",
    });
  }
  return kept;
}

const keptGuess = (id) => keptGuesses().get(id);

/** Keeps the prediction of a scene with what was measured; only the outcome of one that is not final can change. */
function keepGuess(id, { outcome, open = false }, isPressed) {
  const all = keptGuesses();
  const before = all.get(id);
  if (before?.final) {
    return;
  }
  const guess = before?.guess ?? state.guess;
  all.set(id, { guess, outcome, final: isPressed && !open });
  state.guesses = Array.from(all, ([scene, kept]) =>
    [
      scene,
      kept.guess < 0 ? "none" : kept.guess,
      kept.outcome,
      kept.final ? "closed" : "open",
    ].join("."),
  ).join("_");
  remember();
}

/** Marks at the choices what was predicted, and what happened once that is known; what is kept cannot be chosen again. */
function drawChoices(scene, found = null) {
  const locked = Boolean(keptGuess(scene.id));
  for (const input of $("scene-choices").querySelectorAll("input")) {
    const choice = Number(input.value);
    const isGuess = choice === state.guess;
    const isOutcome = found !== null && choice === found.outcome;
    input.checked = isGuess;
    input.disabled = locked;
    let mark = "";
    if (isOutcome) {
      mark = isGuess ? "right" : "happened";
    } else if (found !== null && isGuess) {
      mark = "missed";
    }
    const label = input.closest("label");
    label.dataset.mark = mark;
    label.querySelector("small").textContent = mark ? ` ${t(`lesson.mark.${mark}`)}` : "";
  }
}
