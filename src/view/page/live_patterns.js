// Regular expressions of other makers' tokenizers, for the model in the page. wasm/foreign/regex.cc has them as PCRE2
// reads them, of which src/tokenizer/to_pcre2.cc leaves only what is meant in PCRE2 as in Oniguruma.

/**
 * The same pattern for RegExp with the flags gu. Throws for what JavaScript cannot say. It becomes text: knows
 * nothing.
 */
function javascriptOf(pattern) {
  const token = new RegExp(
      [
        String.raw`\\x\{(?<hex>[\da-f]+)\}|\\x(?<short>[\da-f]{0,2})|\\(?<p>p)\{(?:sc:)?(?<name>[^}]*)\}`,
        String.raw`\\(?<escaped>.)`,
        String.raw`\(\?(?<options>[a-z-]*)(?<ends>[:)])|(?<open>\((?:\?(?:<?[=!]|>))?)`,
        String.raw`(?<times>[*+?]|\{\d+(?:,\d*)?\})(?<how>[?+]?)`,
        '(?<plain>.)',
      ].join('|'),
      'isuy');
  const TURNS = {n: 10, r: 13, t: 9, f: 12, a: 7, e: 27};
  const SPACES = [[9, 13], 32, 133, 160, 0x1680, 0x180e, [0x2000, 0x200a], [0x2028, 0x2029], 0x202f, 0x205f, 0x3000];
  const OUTSIDE = {
    A: '(?<![^])',
    z: '(?![^])',
    Z: String.raw`(?=\n?(?![^]))`,
    R: String.raw`(?:\r\n|(?!\r\n)[\n-\r\x85\u2028\u2029])`,
  };
  let at = 0, caseless = false, made = 0, letters = null;
  const refuse = what => {
    throw new Error(`${what} at ${at}`);
  };
  const next = () => {
    token.lastIndex = at;
    const {0: {length}, groups} = token.exec(pattern) ?? refuse('nothing');
    at += length;
    return groups;
  };
  const code = number => `\\u{${number.toString(16)}}`;
  const one = number => range(number, number);

  /** Letters of more than one case. */
  const cased = () => {
    const all = [];
    for (let c = 0; c < 0x1f000; ++c) {
      const letter = String.fromCodePoint(c);
      if (letter.toLowerCase() !== letter || letter.toUpperCase() !== letter) all.push(letter);
    }
    return all;
  };
  /** Where the case does not count: with the letters that a RegExp takes for the same. */
  function range(first, last) {
    const text = first === last ? code(first) : `${code(first)}-${code(last)}`;
    if (!caseless) return text;
    const same = new RegExp(`^[${text}]$`, 'iu');
    letters ??= cased();
    return text + letters.filter(letter => same.test(letter)).map(letter => code(letter.codePointAt(0))).join('');
  }
  function property(p, name) {
    if (name.length > 2 && name !== 'Any') return `\\${p}{Script=${name}}`;
    return name === 'Any' ? `\\${p}{Any}` : `\\${p}{${name[0].toUpperCase()}${name.slice(1).toLowerCase()}}`;
  }
  /** The number of a character. */
  function character({hex, short, escaped, plain}, inClass) {
    if (hex !== undefined || short !== undefined) return parseInt(hex ?? `0${short}`, 16);
    if (escaped === undefined) return plain.codePointAt(0);
    if (inClass && escaped === 'b') return 8;
    return TURNS[escaped] ?? (/[a-z\d]/i.test(escaped) ? refuse(`\\${escaped}`) : escaped.codePointAt(0));
  }
  /** The set that an escape stands for; undefined: none. */
  function setOf({p, name, escaped}) {
    if (p !== undefined) return property(p, name);
    if (escaped === 'd' || escaped === 'D') return `\\${escaped === 'd' ? 'p' : 'P'}{Nd}`;
    if (escaped !== 'S') return undefined;  // the only one that is left in a class
    let text = '', from = 0;
    for (const space of [...SPACES, 0x110000]) {
      const [first, last] = Array.isArray(space) ? space : [space, space];
      text += `${code(from)}-${code(first - 1)}`;
      from = last + 1;
    }
    return text;
  }
  function classOf() {
    let text = '[';
    if (pattern[at] === '^') text += pattern[at++];
    for (;;) {
      if (pattern[at] === ']') return ++at, `${text}]`;
      const first = member();
      if (typeof first === 'string') {
        text += first;
        continue;
      }
      if (pattern[at] !== '-' || pattern[at + 1] === ']') {
        text += one(first);
        continue;
      }
      ++at;
      const last = member();
      text += typeof last === 'string' ? one(first) + code(45) + last : range(first, last);
    }
  }
  /** The number of a character, or the text of a set. */
  function member() {
    if (pattern[at] === '\\') {
      const found = next();
      return setOf(found) ?? character(found, true);
    }
    const number = pattern.codePointAt(at) ?? refuse('a class without its end');
    at += number > 0xffff ? 2 : 1;
    return number;
  }

  /** Never given back: what a lookahead has found stays so. */
  const once = inner => `(?:(?=(?<a${++made}>${inner}))\\k<a${made}>)`;
  /** Up to the end of a group: alternatives of what stands one behind the other. */
  function sequence(begins, behind) {
    const parts = [], outer = caseless;
    let repeats = false;          // the last part can be repeated
    let empty = [], any = false;  // of the parts of this alternative: can match nothing; one of the others can
    const put = (text, can = true, nothing = !can) => {
      parts.push(text);
      empty.push(nothing);
      repeats = can;
    };
    const all = () => {
      caseless = outer;
      return [parts.join(''), any || !empty.includes(false)];
    };
    while (at < pattern.length) {
      const found = next(), {options, ends, open, times, how, escaped, plain} = found;
      if (plain === ')') {
        if (begins === undefined) refuse(')');
        return all();
      }
      if (options !== undefined) {
        const was = caseless;
        const [on, off = ''] = options.split('-');
        if (on.includes('i')) caseless = true;
        if (off.includes('i')) caseless = false;
        if (ends === ')') continue;
        const [inner, nothing] = sequence('(?:', behind);
        caseless = was;
        put(`(?:${inner})`, true, nothing);
      } else if (open !== undefined) {
        if (open === '(?>' && behind) refuse('an atomic group behind');
        const [inner, nothing] = sequence(open, behind || open.startsWith('(?<'));
        if (open === '(?>')
          put(once(inner), true, nothing);
        else if (open === '(')
          put(`(?:${inner})`, true, nothing);
        else
          put(`${open}${inner})`, false);
      } else if (times !== undefined) {
        if (!repeats) refuse(times);
        if (how === '+' && behind) refuse('possession behind');
        const atom = parts.pop(), nothing = empty.pop();
        if (nothing && times !== '?') refuse('a repetition of nothing');  // the two differ in what that is
        // JavaScript gives back what is optional and empty; written as alternatives it stays.
        const text = times !== '?' ? atom + times : how === '?' ? `(?:|${atom})` : `(?:${atom}|)`;
        put(how === '+' ? once(text) : times === '?' ? text : text + how, false, nothing || /^([*?]|\{0)/.test(times));
      } else if (plain === '[') {
        put(classOf());
      } else if (plain === '|') {
        any ||= !empty.includes(false);
        parts.push('|');
        [repeats, empty] = [false, []];
      } else if (plain === '.') {
        put(String.raw`[^\n]`);
      } else if (plain === '^') {
        put(String.raw`(?:(?<![^])|(?<=\n)(?=[^]))`, false);
      } else if (plain === '$') {
        put(String.raw`(?![^\n])`, false);
      } else if (OUTSIDE[escaped]) {
        put(OUTSIDE[escaped], escaped === 'R');
      } else {
        put(setOf(found) ?? `[${one(character(found, false))}]`);
      }
    }
    if (begins !== undefined) refuse('a group without its end');
    return all();
  }
  return sequence(undefined, false)[0];
}

/**
 * The matches of a RegExp in a text, first byte and the one behind the last of each. None is empty right behind
 * another.
 */
function foundIn(regex, text, bytes) {
  const ends = [];
  let at = 0, byte = 0, last = -1;  // byte: where the character at `at` begins
  const byteOf = bytes === text.length ? place => place : place => {
    for (; at < place; ++at) {
      const unit = text.charCodeAt(at);
      byte += unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;  // two units of four bytes
    }
    return byte;
  };
  // An empty match may be found within a character of two units.
  const within = place => place > 0 && text.codePointAt(place - 1) > 0xffff;
  regex.lastIndex = 0;
  while (regex.lastIndex <= text.length) {
    const match = regex.exec(text);
    if (!match) break;
    const {index} = match, end = index + match[0].length;
    if (index === end && (end === last || within(index))) {
      regex.lastIndex = end + (text.codePointAt(end) > 0xffff ? 2 : 1);
      continue;
    }
    ends.push(byteOf(index), byteOf(end));
    last = end;
  }
  return ends;
}
