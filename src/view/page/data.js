// The data of the page: maps of attention, stored as rows of their largest weights (src/view/packing.h says how).
const data = readData();

function readData() {
  try {
    return JSON.parse(document.getElementById('data').textContent);
  } catch {
    throw new Trouble(tr('dataUnreadable', {again: tr('writeAgain')}));
  }
}

/** The text of a block. */
function packed(block) {
  if (typeof DecompressionStream === 'undefined') throw new Trouble(tr('cannotUnpack'));
  const element = document.getElementById('block' + block);
  if (!element) throw new Trouble(tr('blockMissing', {block, again: tr('writeAgain')}));
  return element.textContent;
}

/** The bytes that such a text stands for: base64 of a deflated stream. In a worker, too. */
async function inflated(text) {
  let bytes = Uint8Array.fromBase64?.(text);  // the fastest, where a browser has it
  if (!bytes) {
    const letters = atob(text);
    bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).arrayBuffer();
}

/** The bytes of a block of the page. */
async function unpack(block) {
  const text = packed(block);
  try {
    return await inflated(text);
  } catch {
    throw damaged(block);
  }
}

function damaged(block) { return new Trouble(tr('blockDamaged', {block, again: tr('writeAgain')})); }

/**
 * Weights of one head, row by row: `key` and `weight` from start[i] to start[i + 1] are those of query i, and
 * dropped[i] is the size of what is not stored. A weight may be below 0, or NaN.
 */
class Grid {
  /** `odd`: weights may be below 0 or NaN. */
  constructor(rows, columns, start, key, weight, dropped, odd = true) {
    Object.assign(this, {rows, columns, start, key, weight, dropped});
    this.finite = !odd || !weight.some(Number.isNaN);
    this.below = odd && weight.some(w => w < 0);
  }

  /** Calls visit(key, weight) for what is stored of row i, by ascending key. */
  each(i, visit) {
    for (let e = this.start[i]; e < this.start[i + 1]; ++e) visit(this.key[e], this.weight[e]);
  }

  at(i, j) {
    for (let e = this.start[i]; e < this.start[i + 1]; ++e)
      if (this.key[e] === j) return this.weight[e];
    return 0;
  }

  /** What is stored of row i, as numbers for all keys. */
  row(i) {
    const out = new Float64Array(this.columns);
    this.each(i, (j, w) => {
      out[j] = w;
    });
    return out;
  }

  column(j) { return this.byKey().row(j); }

  /** The same with rows and columns changed over: row j holds what all queries give to key j. Made once. */
  byKey() {
    if (this.turned) return this.turned;
    const {rows, columns, key, weight} = this;
    const start = new Uint32Array(columns + 1);
    for (const j of key) ++start[j + 1];
    for (let j = 0; j < columns; ++j) start[j + 1] += start[j];
    const next = start.slice(), query = new Uint32Array(key.length), turned = new Float32Array(key.length);
    for (let i = 0; i < rows; ++i)
      for (let e = this.start[i]; e < this.start[i + 1]; ++e) {
        const to = next[key[e]]++;
        [query[to], turned[to]] = [i, weight[e]];
      }
    return this.turned = new Grid(columns, rows, start, query, turned, new Float32Array(columns));
  }

  /** The mean weight that each key receives, of those that are finite. */
  received() {
    const out = new Float64Array(this.columns);
    for (let e = 0; e < this.key.length; ++e)
      if (!Number.isNaN(this.weight[e])) out[this.key[e]] += this.weight[e] / this.rows;
    return out;
  }

  /** The largest size of a weight. Looked for once. */
  largest() {
    if (this.most !== undefined) return this.most;
    this.most = 0;
    for (const w of this.weight)
      if (Math.abs(w) > this.most) this.most = Math.abs(w);
    return this.most;
  }

  /** How much of the size of row i is not stored. */
  droppedShare(i) {
    if (!this.dropped[i]) return 0;
    let size = this.dropped[i];
    this.each(i, (j, w) => {
      if (!Number.isNaN(w)) size += Math.abs(w);
    });
    return this.dropped[i] / size;
  }

  /** What is odd about a row: {below, unknown}, numbers of weights below 0 and of those that are not finite. */
  oddOf(i) {
    let below = 0, unknown = 0;
    this.each(i, (j, w) => {
      below += w < 0;
      unknown += Number.isNaN(w);
    });
    return {below, unknown};
  }

  static fromRows(columns, rows, dropped) {
    return Grid.filled(rows.length, columns, dropped, (i, add) => rows[i].forEach((w, j) => add(j, w)));
  }

  /** Made row by row: fill(i, add) calls add(key, weight), and what one key gets is summed. */
  static filled(rows, columns, dropped, fill) {
    const start = new Uint32Array(rows + 1), key = [], weight = [];
    const sums = new Float64Array(columns), known = new Uint8Array(columns);
    for (let i = 0; i < rows; ++i) {
      const keys = [];
      fill(i, (j, w) => {
        if (!known[j]) keys.push(j);
        known[j] = 1;
        sums[j] += w;
      });
      for (const j of keys.sort((a, b) => a - b)) {
        if (sums[j] !== 0) {
          key.push(j);
          weight.push(sums[j]);
        }
        known[j] = sums[j] = 0;
      }
      start[i + 1] = key.length;
    }
    return new Grid(rows, columns, start, Uint32Array.from(key), Float32Array.from(weight), Float32Array.from(dropped));
  }
}

/** What stands behind a block of rows that are not all of weights from 0 on, one for each entry. */
const KINDS = {
  negative: 1,
  notFinite: 2
};

/** So many heads: those of one layer, or of all. Throws RangeError where the block is not what it should be. */
function unpackHeads(buffer, heads, {queries, keys, whole}) {
  const [entries, gapBytes] = new Uint32Array(buffer, 0, 2);
  const rows = heads * queries;
  const kept = new Float32Array(buffer, 8, rows), dropped = new Float32Array(buffer, 8 + 4 * rows, rows);
  const levelBytes = entries * (whole ? 2 : 1), end = 8 + 9 * rows + levelBytes + gapBytes;
  const levels = whole ? new Uint16Array(buffer, 8 + 8 * rows, entries) : new Uint8Array(buffer, 8 + 8 * rows, entries);
  const counts = new Uint8Array(buffer, 8 + 8 * rows + levelBytes, rows);
  const gaps = new Uint8Array(buffer, 8 + 9 * rows + levelBytes, gapBytes);
  const kinds = buffer.byteLength > end ? new Uint8Array(buffer, end, entries) : null;
  if (end + (kinds ? entries : 0) !== buffer.byteLength || counts.reduce((a, b) => a + b, 0) !== entries)
    throw new RangeError('sizes');
  const start = new Uint32Array(rows + 1), key = new Uint32Array(entries), weight = new Float32Array(entries);
  let entry = 0, byte = 0;
  for (let row = 0; row < rows; ++row) {
    let previous = -1, squares = 0;
    for (let n = 0; n < counts[row]; ++n, ++entry) {
      let gap = 0, shift = 1;
      for (;;) {
        const b = gaps[byte++];
        gap += (b & 127) * shift;
        shift *= 128;
        if (!(b >= 128)) break;
      }
      previous += gap + 1;
      key[entry] = previous;
      weight[entry] = levels[entry] * levels[entry];
      squares += weight[entry];
    }
    if (previous >= keys || byte > gapBytes) throw new RangeError('keys');
    start[row + 1] = entry;
    for (let e = start[row]; squares && e < entry; ++e) weight[e] *= kept[row] / squares;
  }
  kinds?.forEach((kind, e) => {
    if (kind === KINDS.negative) weight[e] = -weight[e];
    if (kind === KINDS.notFinite) weight[e] = NaN;
  });
  const out = [];
  for (let h = 0; h < heads; ++h) {
    const from = start[h * queries], to = start[(h + 1) * queries];
    const own = start.slice(h * queries, (h + 1) * queries + 1).map(at => at - from);
    out.push(new Grid(
        queries, keys, own, key.subarray(from, to), weight.subarray(from, to),
        dropped.subarray(h * queries, (h + 1) * queries), Boolean(kinds)));
  }
  return out;
}

/** What stands for a token of nothing, or of nothing but spaces. */
function visible(label) {
  return label === '' ? tr('emptyToken') : label.trim() === '' ? '\u2423'.repeat([...label].length) : label;
}

/** A token that only models write: <s>, [CLS]. */
const isSpecial = token => /^(<.*>|\[.*\])$/su.test(token);

/** Tokens of one axis: their text, and which begin a word. */
class Tokens {
  constructor(labels, words, count) {
    // Tokens without names are called by their numbers, which count from 1 as all numbers in the page do.
    this.raw = labels.length ? labels : Array.from({length: count}, (_, i) => String(i + 1));
    this.named = labels.length > 0;
    this.words = words.length ? words.map(w => w - words[0]) : this.raw.map((_, i) => i);
    // Numbers of words without gaps.
    let last = -1, number = -1;
    this.words = this.words.map(w => {
      if (w !== last) {
        last = w;
        ++number;
      }
      return number;
    });
    this.wordCount = number + 1;
    this.split = this.wordCount < this.raw.length;
  }

  get count() { return this.raw.length; }

  /** What is shown of them, in the language of the page. */
  get labels() {
    if (this.spoken !== language) [this.spoken, this.visible] = [language, this.raw.map(visible)];
    return this.visible;
  }

  /** Which way most of them are written, of those that are the reader's: 'ltr' or 'rtl'. */
  get direction() {
    const own = this.raw.filter(token => /\p{L}/u.test(token) && !isSpecial(token));
    return own.filter(token => directionOf(token) === 'rtl').length > own.length / 2 ? 'rtl' : 'ltr';
  }

  continues(i) { return i > 0 && this.words[i] === this.words[i - 1]; }

  /** The tokens of each word joined. */
  merged() {
    const labels = Array.from({length: this.wordCount}, () => '');
    this.raw.forEach((label, i) => {
      labels[this.words[i]] += label;
    });
    return new Tokens(labels, [], this.wordCount);
  }
}

class Group {
  /** `blocks`: gives the bytes of a block. */
  constructor(info, index, blocks = unpack) {
    Object.assign(this, {measure: '', shares: true}, info);
    this.index = index;
    this.blocks = blocks;
    this.query = new Tokens(info.queryLabels, info.queryWords, info.queries);
    this.key = new Tokens(info.keyLabels, info.keyWords, info.keys);
    this.self = info.queries === info.keys && this.query.labels.every((label, i) => label === this.key.labels[i]);
    this.grids = [];  // one for each layer x head, once unpacked
    this.vectorCache = new Map();
  }

  async unpackGrids() {
    const layers = await Promise.all(this.weights.map(async block => this.headsOf(block, await this.blocks(block))));
    return layers.flat();
  }

  /** The heads in the bytes of a block. */
  headsOf(block, buffer, heads = this.heads) {
    try {
      return unpackHeads(buffer, heads, this);
    } catch {
      throw damaged(block);
    }
  }

  async load() {
    this.loading ??= (async () => {
      if (this.picture) this.pixels = new Uint8Array(await this.blocks(this.picture.block));
      this.grids = await this.unpackGrids();
      this.tops = this.grids.map(grid => grid.largest());
      this.top = Math.max(1e-9, ...this.tops);
      this.signed = this.grids.some(grid => grid.below);
      const received = new Float64Array(this.keys);
      this.sinks = this.grids.map(grid => {
        const own = grid.received();
        own.forEach((w, j) => {
          received[j] += w / this.grids.length;
        });
        const key = own.indexOf(Math.max(...own));
        return {key, mass: own[key] ?? 0};
      });
      this.sink = {key: received.indexOf(Math.max(...received)), mass: Math.max(...received)};
      this.drop = this.meanDropped();
    })();
    return this.loading;
  }

  /** How much of the size of a row is not stored, in the mean and at most. */
  meanDropped() {
    let sum = 0, count = 0, most = 0;
    for (const grid of this.grids)
      for (let i = 0; i < grid.rows; ++i) {
        const share = grid.droppedShare(i);
        sum += share;
        ++count;
        if (share > most) most = share;
      }
    return {mean: count ? sum / count : 0, most};
  }

  get shownName() { return given(this.name); }

  /** A weight: in per cent, where rows share out 1. */
  amount(w) { return this.signed || !this.shares ? weightText(w) : percent(w); }

  /** The same attention, in each way that the page measures it: weights first. */
  get measures() { return groups.filter(other => other.name === this.name); }

  /** The colours of this group's weights. */
  get palette() { return this.signed ? signed : plain; }

  head(number) { return {number, layer: Math.floor(number / this.heads), head: number % this.heads}; }

  headName(number) {
    const {layer, head} = this.head(number);
    if (this.layers * this.heads === 1) return tr('theHead');
    return tr('headName', {layer: layer + 1, head: this.headLabels[head] ?? tr('headNumber', {head: head + 1})});
  }

  /** The figures that are known of a head. */
  get figureNames() {
    return this.shares ? Object.keys(FIGURES).filter(name => name !== 'importance' || this.importance) : [];
  }

  figure(number, name) {
    if (name === 'importance') return this.importance[number];
    return name === 'sink' ? this.sinks[number].mass : this.statistics[number][FIGURES[name].column];
  }

  /** All figures of a head, the key that `sink` is about, and the importance that fills a bar. */
  figures(number) {
    return {
      ...Object.fromEntries(this.figureNames.map(name => [name, this.figure(number, name)])),
      key: this.sinks[number].key,
      mostImportant: this.mostImportant
    };
  }

  /** The largest importance of a head. */
  get mostImportant() { return largestOf([this.importance ?? []]); }

  /** What a head mostly does, by its figures; empty where nothing stands out. */
  role(number) {
    if (!this.shares) return {role: '', tag: ''};
    let name = ['previous', 'next', 'diagonal', 'sink'].find(name => this.figure(number, name) >= 0.5);
    if (!name && this.keys > 3 && this.figure(number, 'entropy') >= 0.9 * Math.log(this.keys)) name = 'even';
    return name ? {role: tr(`role_${name}`), tag: tr(`tag_${name}`)} : {role: '', tag: ''};
  }

  hasVectors(layer) { return Boolean(this.vectors[layer]); }

  /** q, k and v of a layer: {q(h, i), k(h, j), v(h, j), size, valueSize}, each a Float32Array. */
  async vectorsOf(layer) {
    if (!this.vectorCache.has(layer)) this.vectorCache.set(layer, this.unpackVectors(layer));
    return this.vectorCache.get(layer);
  }

  async unpackVectors(layer) {
    const {block, size, valueSize, kvHeads} = this.vectors[layer];
    const buffer = await this.blocks(block);
    const numbers = this.heads * this.queries * size + kvHeads * this.keys * (size + valueSize);
    if (buffer.byteLength !== 4 * numbers) throw damaged(block);
    const all = new Float32Array(buffer);
    const k0 = this.heads * this.queries * size, v0 = k0 + kvHeads * this.keys * size;
    const shared = this.heads / kvHeads;
    const mask = this.mask === undefined ? null : new Uint8Array(await this.blocks(this.mask));
    const part = (from, row, width) => all.subarray(from + row * width, from + (row + 1) * width);
    return {
      size,
      valueSize,
      kvHeads,
      scale: this.scale || 1 / Math.sqrt(size),
      q: (h, i) => part(0, h * this.queries + i, size),
      k: (h, j) => part(k0, Math.floor(h / shared) * this.keys + j, size),
      v: (h, j) => part(v0, Math.floor(h / shared) * this.keys + j, valueSize),
      allowed: (i, j) => !mask || mask[i * this.keys + j] !== 0,
    };
  }
}

/** Tokens merged into words: weights of a word's keys are summed, rows of a word's queries averaged. */
function mergeWords(grid, query, key) {
  const tokens = Array.from({length: query.wordCount}, () => []);
  query.words.forEach((word, i) => tokens[word].push(i));
  const dropped = tokens.map(own => own.reduce((sum, i) => sum + grid.dropped[i], 0) / own.length);
  return Grid.filled(query.wordCount, key.wordCount, dropped, (word, add) => {
    for (const i of tokens[word]) grid.each(i, (j, w) => add(key.words[j], w / tokens[word].length));
  });
}

/** Without one key; what is left of each row is divided by its sum. */
function hideKey(grid, hidden) {
  const left = Array.from(grid.dropped, (sum, i) => {
    grid.each(i, (j, w) => {
      if (j !== hidden) sum += w;
    });
    return sum > 1e-9 ? sum : 1;  // a row that has no such sum stays as it is
  });
  return Grid.filled(grid.rows, grid.columns, grid.dropped.map((dropped, i) => dropped / left[i]), (i, add) => {
    grid.each(i, (j, w) => {
      if (j !== hidden) add(j, w / left[i]);
    });
  });
}

function meanGrid(grids) {
  if (grids.length === 1) return grids[0];
  const {rows, columns} = grids[0];
  const dropped = Array.from({length: rows}, (_, i) => grids.reduce((sum, grid) => sum + grid.dropped[i], 0));
  return Grid.filled(rows, columns, dropped.map(sum => sum / grids.length), (i, add) => {
    for (const grid of grids) grid.each(i, (j, w) => add(j, w / grids.length));
  });
}

/** Of pairs [[first, second], ...] the number of the pair that each of so many `side`s is in, or -1. */
function pairOf(pairs, side, count) {
  const out = new Int32Array(count).fill(-1);
  pairs.forEach((pair, n) => {
    out[pair[side]] = n;
  });
  return out;
}

/** Weights of b less those of a, for pairs of queries and of keys. */
function differenceGrid(a, b, queries, keys) {
  const inA = pairOf(keys, 0, a.columns), inB = pairOf(keys, 1, b.columns);
  return Grid.filled(queries.length, keys.length, new Float32Array(queries.length), (n, add) => {
    const [i, i2] = queries[n];
    b.each(i2, (j, w) => inB[j] >= 0 && add(inB[j], w));
    a.each(i, (j, w) => inA[j] >= 0 && add(inA[j], -w));
  });
}

/** What is compared stands beside the group of the same number. */
function besideEachOther(all, others) {
  others.forEach((other, index) => {
    all[index].other = other;
  });
  return all;
}

const groups = besideEachOther(
    data.groups.map((info, index) => new Group(info, index)),
    data.compared.map((info, index) => new Group(info, index)));

/** The groups of another text's data, of the same model. `blocks` are its bytes by number. */
function groupsOf(next, blocks) {
  const made = (info, index) => new Group(info, index, block => blocks[block]);
  return besideEachOther(next.groups.map(made), next.compared.map(made));
}

/** Another text's data and groups in the place of what the page shows. */
function replaceData(next, itsGroups) {
  Object.assign(data, next);
  groups.splice(0, groups.length, ...itsGroups);
}
