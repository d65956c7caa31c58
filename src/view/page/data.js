// The data of the page: maps of attention, stored as rows of their largest weights (src/view/page.cc packs them).
const data = JSON.parse(document.getElementById('data').textContent);

/** The bytes of a block: base64 of a deflated stream. */
async function unpack(block) {
  const text = document.getElementById('block' + block).textContent;
  // The first is the faster, where a browser has it.
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).arrayBuffer();
}

/** Weights of one head, row by row: `key` and `weight` from start[i] to start[i + 1] are those of query i. */
class Grid {
  constructor(rows, columns, start, key, weight, dropped) {
    Object.assign(this, {rows, columns, start, key, weight, dropped});
  }

  /** Calls visit(key, weight) for what is stored of row i, by ascending key. */
  each(i, visit) {
    for (let e = this.start[i]; e < this.start[i + 1]; ++e) visit(this.key[e], this.weight[e]);
  }

  at(i, j) {
    for (let e = this.start[i]; e < this.start[i + 1]; ++e) if (this.key[e] === j) return this.weight[e];
    return 0;
  }

  /** What is stored of row i, as numbers for all keys. */
  row(i) {
    const out = new Float64Array(this.columns);
    this.each(i, (j, w) => { out[j] = w; });
    return out;
  }

  column(j) {
    const out = new Float64Array(this.rows);
    for (let i = 0; i < this.rows; ++i) out[i] = this.at(i, j);
    return out;
  }

  /** The mean weight that each key receives. */
  received() {
    const out = new Float64Array(this.columns);
    for (let e = 0; e < this.key.length; ++e) out[this.key[e]] += this.weight[e] / this.rows;
    return out;
  }

  largest() {
    let top = 0;
    for (const w of this.weight) if (w > top) top = w;
    return top;
  }

  static fromRows(columns, rows, dropped) {
    const start = new Uint32Array(rows.length + 1);
    const key = [], weight = [];
    rows.forEach((row, i) => {
      row.forEach((w, j) => {
        if (w === 0) return;
        key.push(j);
        weight.push(w);
      });
      start[i + 1] = key.length;
    });
    return new Grid(rows.length, columns, start, Uint32Array.from(key), Float32Array.from(weight),
                    Float32Array.from(dropped));
  }
}

/** So many heads: those of one layer, or of all. */
function unpackHeads(buffer, heads, {queries, keys, whole}) {
  const [entries, gapBytes] = new Uint32Array(buffer, 0, 2);
  const rows = heads * queries;
  const kept = new Float32Array(buffer, 8, rows), dropped = new Float32Array(buffer, 8 + 4 * rows, rows);
  const levelBytes = entries * (whole ? 2 : 1);
  const levels = whole ? new Uint16Array(buffer, 8 + 8 * rows, entries) : new Uint8Array(buffer, 8 + 8 * rows, entries);
  const counts = new Uint8Array(buffer, 8 + 8 * rows + levelBytes, rows);
  const gaps = new Uint8Array(buffer, 8 + 9 * rows + levelBytes, gapBytes);
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
        if (b < 128) break;
      }
      previous += gap + 1;
      key[entry] = previous;
      weight[entry] = levels[entry] * levels[entry];
      squares += weight[entry];
    }
    start[row + 1] = entry;
    for (let e = start[row]; e < entry; ++e) weight[e] *= kept[row] / squares;
  }
  const out = [];
  for (let h = 0; h < heads; ++h) {
    const from = start[h * queries], to = start[(h + 1) * queries];
    const own = start.slice(h * queries, (h + 1) * queries + 1).map(at => at - from);
    out.push(new Grid(queries, keys, own, key.subarray(from, to), weight.subarray(from, to),
                      dropped.subarray(h * queries, (h + 1) * queries)));
  }
  return out;
}

/** What stands for a token of nothing, or of nothing but spaces. */
function visible(label) {
  return label === '' ? '(empty)' : label.trim() === '' ? '\u2423'.repeat([...label].length) : label;
}

/** Tokens of one axis: their text, and which begin a word. */
class Tokens {
  constructor(labels, words, count) {
    this.raw = labels.length ? labels : Array.from({length: count}, (_, i) => String(i));
    this.labels = this.raw.map(visible);
    this.words = words.length ? words.map(w => w - words[0]) : this.labels.map((_, i) => i);
    // Numbers of words without gaps.
    let last = -1, number = -1;
    this.words = this.words.map(w => {
      if (w !== last) { last = w; ++number; }
      return number;
    });
    this.wordCount = number + 1;
    this.split = this.wordCount < this.labels.length;
  }

  get count() { return this.labels.length; }

  continues(i) { return i > 0 && this.words[i] === this.words[i - 1]; }

  /** The tokens of each word joined. */
  merged() {
    const labels = Array.from({length: this.wordCount}, () => '');
    this.raw.forEach((label, i) => { labels[this.words[i]] += label; });
    return new Tokens(labels, [], this.wordCount);
  }
}

class Group {
  constructor(info, index) {
    Object.assign(this, info);
    this.index = index;
    this.query = new Tokens(info.queryLabels, info.queryWords, info.queries);
    this.key = new Tokens(info.keyLabels, info.keyWords, info.keys);
    this.self = info.queries === info.keys && this.query.labels.every((label, i) => label === this.key.labels[i]);
    this.grids = [];  // one for each layer x head, once unpacked
    this.vectorCache = new Map();
  }

  async unpackGrids() {
    const layers = await Promise.all(this.weights.map(unpack));
    return layers.flatMap(buffer => unpackHeads(buffer, this.heads, this));
  }

  async load() {
    this.loading ??= (async () => {
      this.grids = await this.unpackGrids();
      this.tops = this.grids.map(grid => grid.largest());
      this.top = Math.max(1e-9, ...this.tops);
      const received = new Float64Array(this.keys);
      this.sinks = this.grids.map(grid => {
        const own = grid.received();
        own.forEach((w, j) => { received[j] += w / this.grids.length; });
        const key = own.indexOf(Math.max(...own));
        return {key, mass: own[key] ?? 0};
      });
      this.sink = {key: received.indexOf(Math.max(...received)), mass: Math.max(...received)};
      this.drop = this.meanDropped();
    })();
    return this.loading;
  }

  /** Of all rows that can be summed: how much of a row is not stored, in the mean and at most. */
  meanDropped() {
    let sum = 0, count = 0, most = 0;
    for (const grid of this.grids)
      for (const d of grid.dropped)
        if (!Number.isNaN(d)) {
          sum += d;
          ++count;
          if (d > most) most = d;
        }
    return {mean: count ? sum / count : 0, most};
  }

  head(number) { return {number, layer: Math.floor(number / this.heads), head: number % this.heads}; }

  headName(number) {
    const {layer, head} = this.head(number);
    if (this.layers * this.heads === 1) return 'the head';
    return `layer ${layer + 1}, ${this.headLabels[head] ?? `head ${head + 1}`}`;
  }

  figure(number, name) {
    return name === 'sink' ? this.sinks[number].mass : this.statistics[number][FIGURES[name].column];
  }

  /** What a head mostly does, by its figures; empty where nothing stands out. */
  role(number) {
    for (const name of ['previous', 'next', 'diagonal', 'sink'])
      if (this.figure(number, name) >= 0.5) return FIGURES[name];
    if (this.keys > 3 && this.figure(number, 'entropy') >= 0.9 * Math.log(this.keys)) return {role: 'spread evenly', tag: 'even'};
    return {role: '', tag: ''};
  }

  hasVectors(layer) { return Boolean(this.vectors[layer]); }

  /** q, k and v of a layer: {q(h, i), k(h, j), v(h, j), size, valueSize}, each a Float32Array. */
  async vectorsOf(layer) {
    if (!this.vectorCache.has(layer)) this.vectorCache.set(layer, this.unpackVectors(layer));
    return this.vectorCache.get(layer);
  }

  async unpackVectors(layer) {
    const {block, size, valueSize, kvHeads} = this.vectors[layer];
    const all = new Float32Array(await unpack(block));
    const k0 = this.heads * this.queries * size, v0 = k0 + kvHeads * this.keys * size;
    const shared = this.heads / kvHeads;
    const mask = this.mask === undefined ? null : new Uint8Array(await unpack(this.mask));
    const part = (from, row, width) => all.subarray(from + row * width, from + (row + 1) * width);
    return {
      size, valueSize, kvHeads,
      scale: this.scale || 1 / Math.sqrt(size),
      q: (h, i) => part(0, h * this.queries + i, size),
      k: (h, j) => part(k0, Math.floor(h / shared) * this.keys + j, size),
      v: (h, j) => part(v0, Math.floor(h / shared) * this.keys + j, valueSize),
      allowed: (i, j) => !mask || mask[i * this.keys + j] !== 0,
    };
  }
}

/** The six figures of heed's statistics, and the sink, which is counted here. `unit` 'share' is a part of 1. */
const FIGURES = {
  diagonal: {column: 0, label: 'same position', role: 'same position', tag: 'same', unit: 'share', text: 'weight of key i for query i, in the mean'},
  previous: {column: 1, label: 'previous token', role: 'previous token', tag: 'prev', unit: 'share', text: 'weight of the key before'},
  next: {column: 2, label: 'next token', role: 'next token', tag: 'next', unit: 'share', text: 'weight of the key behind'},
  first: {column: 3, label: 'first token', role: 'first token', tag: 'first', unit: 'share', text: 'weight of the first key'},
  sink: {label: 'strongest key', role: 'one key for all', tag: 'sink', unit: 'share', text: 'weight of the key that all queries together attend to most: the sink'},
  entropy: {column: 4, label: 'entropy', unit: 'nats', text: 'how spread the weights of a row are: 0 is one key, ln of the number of keys is all alike'},
  distance: {column: 5, label: 'mean distance', unit: 'positions', text: 'how far away the attended keys stand'},
};

/** Tokens merged into words: weights of a word's keys are summed, rows of a word's queries averaged. */
function mergeWords(grid, query, key) {
  const rows = Array.from({length: query.wordCount}, () => new Float64Array(key.wordCount));
  const dropped = new Float64Array(query.wordCount), tokens = new Float64Array(query.wordCount);
  for (const word of query.words) ++tokens[word];
  for (let i = 0; i < grid.rows; ++i) {
    const word = query.words[i];
    grid.each(i, (j, w) => { rows[word][key.words[j]] += w / tokens[word]; });
    dropped[word] += grid.dropped[i] / tokens[word];
  }
  return Grid.fromRows(key.wordCount, rows, dropped);
}

/** Without one key; what is left of each row is divided by its sum. */
function hideKey(grid, hidden) {
  const rows = [], dropped = [];
  for (let i = 0; i < grid.rows; ++i) {
    const row = grid.row(i);
    row[hidden] = 0;
    const rest = row.reduce((a, b) => a + b, 0) + (grid.dropped[i] || 0);
    rows.push(rest > 1e-9 ? row.map(w => w / rest) : row.fill(0));
    dropped.push(rest > 1e-9 ? grid.dropped[i] / rest : 0);
  }
  return Grid.fromRows(grid.columns, rows, dropped);
}

function meanGrid(grids) {
  if (grids.length === 1) return grids[0];
  const rows = [], dropped = [];
  for (let i = 0; i < grids[0].rows; ++i) {
    const row = new Float64Array(grids[0].columns);
    let rest = 0;
    for (const grid of grids) {
      grid.each(i, (j, w) => { row[j] += w / grids.length; });
      rest += grid.dropped[i] / grids.length;
    }
    rows.push(row);
    dropped.push(rest);
  }
  return Grid.fromRows(grids[0].columns, rows, dropped);
}

const groups = data.groups.map((info, index) => new Group(info, index));
data.compared.forEach((info, index) => { groups[index].other = new Group(info, index); });
