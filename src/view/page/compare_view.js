// Two texts side by side: the maps of the same heads, and what differs between them.

/** Which tokens belong together: [[i, j], ...], ascending on both sides. `by` position, or equal tokens in order. */
function pairTokens(a, b, by) {
  if (by === 'position') return a.map((_, i) => [i, i]);
  let first = 0, endA = a.length, endB = b.length;
  while (first < endA && first < endB && a[first] === b[first]) ++first;
  while (endA > first && endB > first && a[endA - 1] === b[endB - 1]) { --endA; --endB; }
  const pairs = Array.from({length: first}, (_, i) => [i, i]);
  const rows = endA - first, columns = endB - first, width = columns + 1;
  if (rows * columns <= 2 ** 24) {  // of longer texts the equal beginning and end alone
    const longest = new Uint16Array((rows + 1) * width);  // of the rest from (i, j) on
    for (let i = rows - 1; i >= 0; --i)
      for (let j = columns - 1; j >= 0; --j)
        longest[i * width + j] = a[first + i] === b[first + j] ? longest[(i + 1) * width + j + 1] + 1
                                                               : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    for (let i = 0, j = 0; i < rows && j < columns;) {
      if (a[first + i] === b[first + j]) pairs.push([first + i++, first + j++]);
      else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) ++i;
      else ++j;
    }
  }
  for (let i = 0; endA + i < a.length; ++i) pairs.push([endA + i, endB + i]);
  return pairs;
}

/** Weights of b less those of a, for pairs of queries and of keys. */
function differenceGrid(a, b, queries, keys) {
  const start = new Uint32Array(queries.length + 1), key = [], weight = [];
  queries.forEach(([i, i2], n) => {
    const rowA = a.row(i), rowB = b.row(i2);
    keys.forEach(([j, j2], m) => {
      const d = rowB[j2] - rowA[j];
      if (d === 0) return;
      key.push(m);
      weight.push(d);
    });
    start[n + 1] = key.length;
  });
  return new Grid(queries.length, keys.length, start, Uint32Array.from(key), Float32Array.from(weight), new Float32Array(queries.length));
}

/** How much of a row's weight stands elsewhere in the other text, in the mean over pairs of queries: 0 none, 1 all. */
function movedWeight(a, b, queries, keys) {
  let total = 0;
  for (const [i, i2] of queries) {
    const rowA = a.row(i), rowB = b.row(i2);
    let both = 0, sum = 0;
    for (const [j, j2] of keys) both += Math.min(rowA[j], rowB[j2]);
    for (const w of rowA) sum += w / 2;
    for (const w of rowB) sum += w / 2;
    total += sum > 0 ? 1 - both / sum : 0;
  }
  return queries.length ? total / queries.length : 0;
}

const signed = {scale: t => Math.sign(t) * onScale(Math.abs(t)), color: signColor};

const compareView = {
  /** Tokens can be paired by position where there are as many of them. */
  canPairByPosition(g) { return g.queries === g.other.queries && g.keys === g.other.keys; },

  pairing(g) { return this.canPairByPosition(g) ? state.pairing : 'tokens'; },

  /** What is shown of the chosen heads: the maps of both texts, their difference, and the tokens that belong together. */
  compared() {
    const g = group(), o = g.other, by = this.pairing(g);
    const id = [g.index, state.heads, by, g.grids.length].join('|');
    if (this.shownId === id) return this.shown;
    g.pairs ??= {};
    const pairs = g.pairs[by] ??= {queries: pairTokens(g.query.raw, o.query.raw, by), keys: pairTokens(g.key.raw, o.key.raw, by)};
    const {queries, keys} = pairs;
    const a = meanGrid(state.heads.map(n => g.grids[n])), b = meanGrid(state.heads.map(n => o.grids[n]));
    const joined = (list, one, two) => new Tokens(list.map(([i, j]) => (one.raw[i] === two.raw[j] ? one.raw[i] : `${visible(one.raw[i])} / ${visible(two.raw[j])}`)), [], list.length);
    const difference = differenceGrid(a, b, queries, keys);
    pairs.moved ??= g.grids.map((grid, n) => movedWeight(grid, o.grids[n], queries, keys));
    this.shownId = id;
    this.shown = {
      by, queries, keys, moved: pairs.moved,
      top: Math.max(1e-9, a.largest(), b.largest()),
      most: Math.max(1e-9, difference.weight.reduce((most, w) => Math.max(most, Math.abs(w)), 0)),
      maps: [
        {name: 'A', heading: `A: ${pageTitle()}`, text: data.text, grid: a, query: g.query, key: g.key},
        {name: 'B', heading: `B: ${data.comparedTitle || 'the other text'}`, text: data.comparedText, grid: b, query: o.query, key: o.key},
        {name: 'difference', heading: 'B \u2212 A: blue where B has more, orange where A has', text: '', grid: difference, query: joined(queries, g.query, o.query), key: joined(keys, g.key, o.key)},
      ],
    };
    return this.shown;
  },

  how(c) {
    const g = group(), o = g.other;
    if (c.by === 'position') return `Tokens are paired by their position: both texts have ${g.queries} queries and ${g.keys} keys. The difference is B \u2212 A for each pair.`;
    return `Equal tokens that come in the same order in both texts are paired (a longest common subsequence): ${c.queries.length} of ${g.queries} and ${o.queries} queries, ${c.keys.length} of ${g.keys} and ${o.keys} keys. The difference is B \u2212 A for these pairs and says nothing of the other tokens.`;
  },

  /** The same cell in all three maps: a pair [query, key] or null for each. */
  places(c, which, i, j) {
    const find = (list, side, n) => (n === null ? null : list.findIndex(pair => pair[side] === n));
    const at = {A: null, B: null, difference: null};
    const pair = which === 'difference' ? [i, j] : [find(c.queries, which === 'A' ? 0 : 1, i), find(c.keys, which === 'A' ? 0 : 1, j)];
    if (which !== 'difference') at[which] = [i, j];
    if (pair.includes(-1)) return at;
    at.difference = pair;
    const of = side => [c.queries[pair[0]][side], c.keys[pair[1]][side]];
    at.A = of(0);
    at.B = of(1);
    return at;
  },

  build(container) {
    const g = group(), c = this.compared();
    const wide = document.getElementById('view').clientWidth || 800;
    const space = innerWidth > 1000 ? Math.max(250, (wide - 600) / 2 - 12) : wide - 4;
    this.boxes = c.maps.map(map => mapSize(map.query, map.key, space));
    this.canvases = c.maps.map((map, n) => {
      const {width, height} = this.boxes[n];
      const canvas = makeCanvas(width, height, {class: 'bigmap', id: `map-${map.name}`, tabIndex: 0, role: 'img', 'aria-label': `${n < 2 ? `Map of text ${map.name}` : 'Map of the difference'}, ${headsName()}: ${map.query.count} queries by ${map.key.count} keys. Arrow keys move over the cells.`});
      this.listen(canvas, n);
      return canvas;
    });
    const figures = c.maps.map((map, n) => make('figure', {class: 'compared'},
      make('figcaption', {}, make('bdi', {class: 'whole'}, map.heading), map.text && make('p', {class: 'faint', dir: 'auto'}, map.text)),
      map.query.count && map.key.count ? make('div', {class: 'scroll'}, this.canvases[n]) : make('p', {class: 'hint'}, 'No token of one text belongs to one of the other.')));
    this.detail = make('aside', {class: 'detail', 'aria-label': 'The cell looked at'});
    container.append(make('p', {class: 'note', id: 'how'}, this.how(c)),
      ...state.heads.flatMap(n => [['A', g.notes[n]], ['B', g.other.notes[n]]].flatMap(([name, notes]) => (notes ?? []).map(note => make('p', {class: 'note flag'}, `${name}, ${g.headName(n)}: ${note}`)))),
      make('div', {class: 'headview'}, headView.picker(g), make('div', {class: 'stage'}, make('h3', {}, headsName()), make('div', {class: 'comparison'}, ...figures)), this.detail));
  },

  ready() { this.refresh(); },

  listen(canvas, n) {
    const c = this.compared(), {name, query, key} = c.maps[n], {label, head, cell} = this.boxes[n];
    const cellAt = event => {
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - label) / cell), i = Math.floor((event.clientY - box.top - head) / cell);
      return i < 0 || j < 0 || i >= query.count || j >= key.count ? null : {which: name, i, j};
    };
    canvas.addEventListener('mousemove', event => { if (!state.cell) this.refresh(cellAt(event)); });
    canvas.addEventListener('mouseleave', () => { if (!state.cell) this.refresh(null); });
    canvas.addEventListener('click', event => {
      const at = cellAt(event), old = state.cell;
      state.cell = at && old && old.which === at.which && old.i === at.i && old.j === at.j ? null : at;
      this.refresh(state.cell);
    });
    canvas.addEventListener('keydown', event => {
      const move = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1]}[event.key];
      if (!move) return;
      event.preventDefault();
      const from = state.cell && this.places(c, state.cell.which, state.cell.i, state.cell.j)[name];
      const next = (value, by, count) => Math.max(0, Math.min(count - 1, value + by));
      state.cell = from ? {which: name, i: next(from[0], move[0], query.count), j: next(from[1], move[1], key.count)} : {which: name, i: 0, j: 0};
      this.refresh(state.cell);
      say(this.sentence(c, state.cell));
    });
  },

  /** What the cell says, in words. */
  sentence(c, {which, i, j}) {
    const at = this.places(c, which, i, j);
    const part = n => {
      const {name, query, key, grid} = c.maps[n];
      return at[name] && `${name}: ${query.labels[at[name][0]].slice(0, 80)} attends to ${key.labels[at[name][1]].slice(0, 80)} with ${number(grid.at(...at[name]))}`;
    };
    return [part(0), part(1), at.difference ? `difference ${signedNumber(c.maps[2].grid.at(...at.difference))}` : 'no pair'].filter(Boolean).join('; ');
  },

  /** Draws the maps, with the cell looked at. */
  refresh(looked = state.cell) {
    const c = this.compared();
    const within = looked && c.maps.find(map => map.name === looked.which);
    const cell = within && looked.i < within.query.count && looked.j < within.key.count ? looked : null;
    const at = cell ? this.places(c, cell.which, cell.i, cell.j) : {};
    c.maps.forEach((map, n) => {
      const context = sizeCanvas(this.canvases[n], this.boxes[n].width, this.boxes[n].height);
      this.drawOne(new CanvasPen(context), c, n, this.boxes[n], at[map.name]);
    });
    this.describe(c, cell, at);
  },

  drawOne(pen, c, n, box, at) {
    const {grid, query, key} = c.maps[n];
    const [i, j] = at ?? [null, null];
    if (n < 2) drawGrid(pen, grid, query, key, box, {top: c.top, query: i, key: j, faintQueries: this.alone(c.queries, n, query), faintKeys: this.alone(c.keys, n, key)});
    else drawGrid(pen, grid, query, key, box, {top: c.most, query: i, key: j, palette: signed, room: 30, text: w => (w < 0 ? '\u2212' : '+') + Math.abs(w).toFixed(2).replace(/^0/, '')});
  },

  /** Tests for tokens of text `side` that have no partner. */
  alone(pairs, side, tokens) {
    if (pairs.length === tokens.count) return () => false;
    const paired = new Set(pairs.map(pair => pair[side]));
    return n => !paired.has(n);
  },

  describe(c, cell, at) {
    const g = group(), parts = [];
    if (cell) {
      const rows = c.maps.slice(0, 2).filter(map => at[map.name]).map(map => make('tr', {}, make('th', {scope: 'row'}, map.name),
        make('td', {}, make('bdi', {class: 'token'}, map.query.labels[at[map.name][0]]), ' \u2192 ', make('bdi', {class: 'token'}, map.key.labels[at[map.name][1]])),
        make('td', {class: 'value'}, number(map.grid.at(...at[map.name])))));
      if (at.difference) rows.push(make('tr', {}, make('th', {scope: 'row', colSpan: 2}, 'B \u2212 A'), make('td', {class: 'value big'}, signedNumber(c.maps[2].grid.at(...at.difference)))));
      parts.push(make('table', {class: 'numbers pair'}, make('tbody', {}, ...rows)));
      if (!at.difference) parts.push(make('p', {class: 'faint'}, 'This token has no partner in the other text.'));
      if (state.cell) parts.push(make('p', {}, make('button', {type: 'button', onclick: () => change({cell: null})}, 'let go (Esc)')));
    } else {
      parts.push(make('p', {class: 'hint'}, matchMedia('(hover: none)').matches ? 'Tap a cell to see it in both texts.' : 'Point at a cell to see it in both texts; click to keep it.'));
    }
    const order = c.moved.map((_, n) => n).sort((x, y) => c.moved[y] - c.moved[x] || x - y).slice(0, 10);
    parts.push(make('h3', {}, 'Heads that differ most'), make('ol', {class: 'bars', id: 'moved'}, ...order.map(n => make('li', {},
      make('button', {type: 'button', class: 'link', 'data-head': String(n), onclick: () => change({heads: [n]})}, g.headName(n)),
      make('span', {class: 'stack'}, make('i', {vars: {'--part': `${100 * Math.min(1, c.moved[n])}%`, '--color': headColor(0)}})),
      make('span', {class: 'amount'}, percent(c.moved[n]))))),
      make('p', {class: 'faint'}, 'How much of a row\u2019s weight stands on other tokens in B than in A, in the mean over paired queries. A key without a partner counts as another token.'));
    const focus = focusOf(document.activeElement);
    const inside = this.detail.contains(document.activeElement);
    this.detail.replaceChildren(...parts);
    if (inside) restoreFocus(focus);
  },

  tools() {
    const g = group(), c = this.compared();
    return [
      choice('pair tokens', [...(this.canPairByPosition(g) ? [['position', 'by position']] : []), ['tokens', 'that are equal']], c.by, pairing => change({pairing, cell: null})),
      liftTool(),
      colorBar(number(c.top)),
      colorBar(number(c.most), {begin: `\u2212${number(c.most)}`, from: -1, palette: signed, title: 'colour of a difference'}),
    ];
  },

  paint(pen) {
    const c = this.compared(), gap = 24;
    const boxes = c.maps.map(map => mapSize(map.query, map.key, Math.max(260, Math.min(1000, map.key.count * 24))));
    const width = Math.max(320, 20 + boxes.reduce((sum, box) => sum + Math.max(200, box.width) + gap, -gap));
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(10, 38, `${group().name}, ${headsName()}, beside: ${data.comparedTitle}`, {size: 12, color: ink().faint, width: width - 20});
    let x = 10;
    c.maps.forEach((map, n) => {
      const own = Math.max(200, boxes[n].width);
      pen.text(x, 60, n < 2 ? map.heading : 'B \u2212 A', {size: 11, width: own});
      this.drawOne(new ShiftedPen(pen, x, 72), c, n, boxes[n]);
      x += own + gap;
    });
    const height = 72 + Math.max(...boxes.map(box => box.height));
    pen.text(10, height + 10, c.by === 'position' ? 'tokens paired by position' : 'equal tokens paired', {size: 10, color: ink().faint});
    return {width, height: height + 24};
  },

  csv() {
    const g = group(), o = g.other, {queries, keys} = this.compared();
    const rows = [['layer', 'head', 'query A', 'query token A', 'query B', 'query token B', 'key A', 'key token A', 'key B', 'key token B', 'weight A', 'weight B', 'difference']];
    for (const n of state.heads) {
      const {layer, head} = g.head(n);
      for (const [i, i2] of queries) {
        const a = g.grids[n].row(i), b = o.grids[n].row(i2);
        for (const [j, j2] of keys)
          if (a[j] !== 0 || b[j2] !== 0)
            rows.push([layer + 1, head + 1, i + 1, g.query.raw[i], i2 + 1, o.query.raw[i2], j + 1, g.key.raw[j], j2 + 1, o.key.raw[j2], a[j], b[j2], b[j2] - a[j]]);
      }
    }
    return rows;
  },
};
