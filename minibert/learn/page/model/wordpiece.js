// WordPiece in JavaScript, with the steps of minibert/tokenization in the same order. A character
// is [character, index]. Indices count code points as in Python, so that every piece has its
// offsets.

const WHITE_SPACE = /[\t\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/u;

const DROPPED = /[\p{Cc}\p{Cf}\p{Co}\ufffd]/u;

const IDEOGRAPH =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u;

const MARK = /\p{Mn}/u;

// ASCII symbols such as $ + ~ count as punctuation, which differs from Unicode.
const PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/u;

export const MAX_WORD = 100; // code points, longer words are unknown

export class WordPiece {
  /** @type {string[]} */
  vocabulary = [];
  /** @type {Record<string, string>} */
  special = {};
  /** @type {string[]} */
  added = [];
  do_lower_case = true;
  strip_accents = true;
  tokenize_chinese_chars = true;

  /**
   * @param {any} tokenizer its vocabulary, special tokens (cls, sep, pad, unk, mask), added tokens,
   *   do_lower_case, strip_accents and tokenize_chinese_chars.
   */
  constructor(tokenizer) {
    Object.assign(this, tokenizer);
    /** @type {Map<string, any>} */
    this.ids = new Map(this.vocabulary.map((piece, id) => [piece, id]));
    this.longest = this.vocabulary.reduce((most, piece) => Math.max(most, piece.length), 0);
    // Added tokens such as [MASK] are matched in the original text, the longest first.
    const patterns = [...this.added]
      .sort((a, b) => b.length - a.length)
      .map((token) => token.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.finder = new RegExp(patterns.join("|") || "(?!)", "gu");
  }

  /**
   * Removes control characters, separates ideographs, and strips accents and case if the tokenizer
   * does.
   * @param {[string, number][]} chars
   */
  normalize(chars) {
    /** @type {any[]} pairs of a character and its index */
    let kept = chars.filter(([char]) => WHITE_SPACE.test(char) || !DROPPED.test(char));
    if (this.tokenize_chinese_chars) {
      kept = kept.flatMap(([char, at]) =>
        IDEOGRAPH.test(char)
          ? [
              [" ", at],
              [char, at],
              [" ", at],
            ]
          : [[char, at]],
      );
    }
    if (this.strip_accents) {
      kept = kept
        .flatMap(([char, at]) => Array.from(char.normalize("NFD"), (part) => [part, at]))
        .filter(([char]) => !MARK.test(char));
    }
    if (this.do_lower_case) {
      kept = kept.flatMap(([char, at]) => Array.from(char.toLowerCase(), (part) => [part, at]));
    }
    return kept;
  }

  /**
   * Splits at white space and around punctuation.
   * @param {[string, number][]} chars
   */
  words(chars) {
    const words = [];
    /** @type {any[]} */
    let word = [];
    const end = () => {
      if (word.length) {
        words.push(word);
      }
      word = [];
    };
    for (const char of chars) {
      if (WHITE_SPACE.test(char[0])) {
        end();
      } else if (PUNCTUATION.test(char[0])) {
        end();
        words.push([char]);
      } else {
        word.push(char);
      }
    }
    end();
    return words;
  }

  /**
   * Splits a word into pieces, always taking the longest match. A word without a match is unknown.
   * @param {[string, number][]} word
   */
  pieces(word) {
    /**
     * @param {number} id
     * @param {number} from
     * @param {number} to
     */
    const span = (id, from, to) => ({ id, start: word[from][1], end: word[to - 1][1] + 1 });
    const found = [];
    let start = 0;
    while (start < word.length && word.length <= MAX_WORD) {
      let end = Math.min(word.length, start + this.longest);
      let id;
      for (; end > start; end--) {
        id = this.ids.get(
          (start ? "##" : "") +
            word
              .slice(start, end)
              .map(([char]) => char)
              .join(""),
        );
        if (id !== undefined) {
          break;
        }
      }
      if (end === start) {
        break;
      }
      found.push(span(id, start, end));
      start = end;
    }
    return start === word.length && word.length
      ? found
      : [span(this.ids.get(this.special.unk), 0, word.length)];
  }

  /**
   * Returns the tokens of a single text: [{id, start, end}, ...].
   * @param {string} text
   */
  tokens(text) {
    /** @type {any[]} */
    const found = [];
    let done = 0;
    let place = 0; // in code points
    /** @param {string} part */
    const plain = (part) => {
      const chars = Array.from(
        part,
        (char, i) => /** @type {[string, number]} */ ([char, place + i]),
      );
      for (const word of this.words(this.normalize(chars))) {
        found.push(...this.pieces(word));
      }
      place += chars.length;
    };
    for (const match of text.matchAll(this.finder)) {
      plain(text.slice(done, match.index));
      const length = Array.from(match[0]).length;
      found.push({ id: this.ids.get(match[0]), start: place, end: place + length });
      place += length;
      done = match.index + match[0].length;
    }
    plain(text.slice(done));
    return found;
  }

  /**
   * Returns the input of the model: [CLS] first [SEP], then second [SEP] for a pair, padded with
   * [PAD] to `length` tokens.
   * @param {string} text
   * @param {string | null | undefined} pair
   * @param {number} [length]
   */
  encode(text, pair, length = 0) {
    /**
     * @param {string} name
     * @param {number} type
     * @param {number} [mask]
     */
    const own = (name, type, mask = 1) => ({
      id: this.ids.get(this.special[name]),
      start: 0,
      end: 0,
      type,
      mask,
    });
    /**
     * @param {string} text
     * @param {number} type
     */
    const part = (text, type) => this.tokens(text).map((token) => ({ ...token, type, mask: 1 }));
    const row = [own("cls", 0), ...part(text, 0), own("sep", 0)];
    if (pair !== null && pair !== undefined) {
      row.push(...part(pair, 1), own("sep", 1));
    }
    while (row.length < length) {
      row.push(own("pad", 0, 0));
    }
    return row.map((token) => ({ ...token, piece: this.vocabulary[token.id] }));
  }
}
