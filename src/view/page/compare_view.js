// Two texts, models or files, A and B: what differs between the maps of the same heads, and the maps themselves.

/** The order in which maps are shown: the difference first, then A and B. */
const SHOWN_ORDER = [2, 0, 1];
const LEAST_MOVED = 1e-6;  // of a head's weight; less is rounding

/** Which tokens belong together: [[i, j], ...], ascending on both sides. `by` position, or equal tokens in order. */
function pairTokens(a, b, by) {
  if (by === 'position') return a.map((_, i) => [i, i]);
  let first = 0, endA = a.length, endB = b.length;
  while (first < endA && first < endB && a[first] === b[first]) ++first;
  while (endA > first && endB > first && a[endA - 1] === b[endB - 1]) {
    --endA;
    --endB;
  }
  const pairs = Array.from({length: first}, (_, i) => [i, i]);
  const rows = endA - first, columns = endB - first, width = columns + 1;
  if (rows * columns <= 2 ** 24) {                        // of longer texts the equal beginning and end alone
    const longest = new Uint16Array((rows + 1) * width);  // of the rest from (i, j) on
    for (let i = rows - 1; i >= 0; --i)
      for (let j = columns - 1; j >= 0; --j)
        longest[i * width + j] = a[first + i] === b[first + j] ?
            longest[(i + 1) * width + j + 1] + 1 :
            Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    for (let i = 0, j = 0; i < rows && j < columns;) {
      if (a[first + i] === b[first + j])
        pairs.push([first + i++, first + j++]);
      else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        ++i;
      else
        ++j;
    }
  }
  for (let i = 0; endA + i < a.length; ++i) pairs.push([endA + i, endB + i]);
  return pairs;
}

/** How much of a row's weight stands elsewhere in the other one, in the mean over pairs of queries: 0 none, 1 all. */
function movedWeight(a, b, queries, keys) {
  const inA = pairOf(keys, 0, a.columns), inB = pairOf(keys, 1, b.columns);
  const ofB = new Float64Array(keys.length);
  let total = 0;
  for (const [i, i2] of queries) {
    let both = 0, sum = 0;
    b.each(i2, (j, w) => {
      sum += w / 2;
      if (inB[j] < 0) return;
      ofB[inB[j]] = w;
      both += Math.min(0, w);  // as if a had nothing there
    });
    a.each(i, (j, w) => {
      sum += w / 2;
      const other = inA[j] < 0 ? 0 : ofB[inA[j]];
      if (inA[j] >= 0) both += Math.min(w, other) - Math.min(0, other);
    });
    b.each(i2, j => {
      if (inB[j] >= 0) ofB[inB[j]] = 0;
    });
    total += sum > 0 ? 1 - both / sum : 0;
  }
  return queries.length ? total / queries.length : 0;
}

const compareView = {
  /** Tokens can be paired by position where there are as many of them. */
  canPairByPosition(g) { return g.queries === g.other.queries && g.keys === g.other.keys; },

  pairing(g) { return this.canPairByPosition(g) ? state.pairing : 'tokens'; },

  /** The tokens of a group that belong together, and how much of each head's weight has moved. */
  pairsOf(g) {
    const o = g.other, by = this.pairing(g);
    g.pairs ??= {};
    const pairs =
        g.pairs[by] ??= {queries: pairTokens(g.query.raw, o.query.raw, by), keys: pairTokens(g.key.raw, o.key.raw, by)};
    pairs.moved ??= g.grids.map((grid, n) => movedWeight(grid, o.grids[n], pairs.queries, pairs.keys));
    return pairs;
  },

  /** Whether a head of a group, which is loaded, looks elsewhere in B than in A. */
  differs(g) { return this.pairsOf(g).moved.some(part => part > LEAST_MOVED); },

  comparable() { return groups.filter(g => g.other && !g.measure); },

  /** Where no head of a tab does, those of the others are asked. */
  async prepare() {
    if (!this.differs(group())) await Promise.all(this.comparable().flatMap(g => [g.load(), g.other.load()]));
  },

  /** Of heads whose maps are alike: where to look for what differs. */
  noDifference(g) {
    if (this.differs(g)) return tr('noDifference');
    const others = this.comparable().filter(one => this.differs(one));
    return others.length ? tr('noDifferenceInTab', {tabs: others.map(one => one.shownName).join(tr('listSeparator'))}) :
                           tr('noDifferenceAtAll');
  },

  /**
     What is shown of the chosen heads: the maps of both texts, their difference, and the tokens that belong together.
   */
  compared() {
    const g = group(), o = g.other, by = this.pairing(g);
    const id = [g.index, state.heads, by, g.grids.length, language].join('|');
    if (this.shownId === id) return this.shown;
    const {queries, keys, moved} = this.pairsOf(g);
    const a = meanGrid(state.heads.map(n => g.grids[n])), b = meanGrid(state.heads.map(n => o.grids[n]));
    const joined = (list, one, two) => new Tokens(
        list.map(
            ([i, j]) => (one.raw[i] === two.raw[j] ? one.raw[i] : `${visible(one.raw[i])} / ${visible(two.raw[j])}`)),
        [], list.length);
    const difference = differenceGrid(a, b, queries, keys);
    this.shownId = id;
    this.shown = {
      by,
      queries,
      keys,
      moved,
      top: Math.max(1e-9, a.largest(), b.largest()),
      most: Math.max(0.001, largestOf([difference.weight])),  // what is less is no difference to be seen
      maps: [
        {name: 'A', heading: tr('textA', {title: pageTitle()}), text: data.text, grid: a, query: g.query, key: g.key},
        {
          name: 'B',
          heading: tr('textB', {title: data.comparedTitle || tr('otherText')}),
          text: data.comparedText,
          grid: b,
          query: o.query,
          key: o.key
        },
        {
          name: 'difference',
          heading: tr('differenceHeading'),
          text: difference.weight.length ? '' : this.noDifference(g),
          grid: difference,
          query: joined(queries, g.query, o.query),
          key: joined(keys, g.key, o.key)
        },
      ],
    };
    return this.shown;
  },

  how(c) {
    const g = group(), o = g.other;
    if (c.by === 'position') return tr('pairedByPosition', {queries: g.queries, keys: g.keys});
    return tr(
        'pairedByTokens',
        {pairs: c.queries.length, a: g.queries, b: o.queries, keyPairs: c.keys.length, keysA: g.keys, keysB: o.keys});
  },

  /** The same cell in all three maps: a pair [query, key] or null for each. */
  places(c, which, i, j) {
    const find = (list, side, n) => (n === null ? null : list.findIndex(pair => pair[side] === n));
    const at = {A: null, B: null, difference: null};
    const pair = which === 'difference' ?
        [i, j] :
        [find(c.queries, which === 'A' ? 0 : 1, i), find(c.keys, which === 'A' ? 0 : 1, j)];
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
    this.sheets = c.maps.map(() => make('div'));
    const figures = c.maps.map(
        (map, n) => make(
            'figure', {class: map.name === 'difference' ? 'compared first' : 'compared'},
            make(
                'figcaption', {}, make('bdi', {class: 'whole'}, map.heading),
                map.text &&
                    make('p', {class: 'faint', dir: 'auto', lang: map.name === 'difference' ? null : ''}, map.text)),
            map.query.count && map.key.count ? this.sheets[n] : make('p', {class: 'hint'}, tr('noPairs'))));
    this.stage = make('div', {class: 'comparison'}, ...SHOWN_ORDER.map(n => figures[n]));
    this.detail = make('aside', {class: 'detail', 'aria-label': tr('cellLookedAt')});
    container.append(
        data.predictions.length ? this.predictions() : '', make('p', {class: 'note', id: 'how'}, this.how(c)),
        ...state.heads.flatMap(
            n => [['A', g.notes[n]], ['B', g.other.notes[n]]].flatMap(
                ([name, notes]) =>
                    (notes ??
                     []).map(note => make('p', {class: 'note flag'}, `${name}, ${g.headName(n)}: ${given(note)}`)))),
        make(
            'div', {class: 'headview'}, headView.picker(g),
            make('div', {class: 'stage'}, make('h3', {class: 'stagehead'}, headsName()), this.stage), this.detail));
  },

  /** How probable each token of A's output is to both models, coloured by the difference. */
  predictions() {
    const differences = data.predictions.map(([, a, b]) => b - a), most = largestOf([differences]);
    const few = largestPlaces(differences);
    const chips = few.map(n => {
      const [token, a, b] = data.predictions[n], color = evenly.color((b - a) / most);
      return make(
          'span', {class: 'chip begins', vars: {'--fill': css(color), '--on': textOn(color)}},
          make('bdi', {}, visible(token)), make('small', {}, `${percent(a)} \u2192 ${percent(b)}`));
    });
    return make(
        'section', {}, make('h3', {}, tr('predictionsHeading')),
        make('p', {class: 'chips', id: 'predictions', dir: 'auto', lang: ''}, ...withGaps(chips, few)),
        leftOut(few, differences.length), colorBar(scaleOf(most, evenly, tr('colorOfProbability'))));
  },

  /** The maps, as soon as the room for them is known: two beside each other where they fit. */
  ready() {
    const c = this.compared(), wide = this.stage.clientWidth;
    const space = paper.printing ? 235 : Math.floor(wide > 560 ? (wide - 26) / 2 : wide);
    this.windows ??= {};
    const boxes = this.boxes(c, space, paper.printing ? 380 : Infinity);
    this.maps = c.maps.map((map, n) => {
      const canvas = new MapCanvas(
          map.grid, map.query, map.key, boxes[n], this.options(c, n), {
            id: `map-${map.name}`,
            'aria-label':
                tr(n < 2 ? 'mapOfSide' : 'mapOfDifference',
                   {which: map.name, name: headsName(), queries: map.query.count, keys: map.key.count})
          },
          {room: {width: space, height: 420}, place: this.windows[map.name] ??= {}});
      this.listen(canvas, map.name);
      canvas.showIn(this.sheets[n]);
      return canvas;
    });
    this.refresh();
  },

  /** The three maps, with cells of one size. */
  boxes(c, space, tall) {
    const boxes = c.maps.map(map => mapSize(map.query, map.key, space, tall));
    const cell = Math.min(...boxes.map(box => box.cell));
    return boxes.map((box, n) => sized({...box, cell}, c.maps[n].query, c.maps[n].key));
  },

  /** `map` is that of text A, of B, or of the difference, as `which` says. */
  listen(map, which) {
    const c = this.compared(), canvas = map.element;
    const cellAt = event => {
      const at = map.cellAt(event);
      return at && at.query !== null && at.key !== null ? {which, i: at.query, j: at.key} : null;
    };
    const look = cell => {
      const same = (a, b) => a === b || (a && b && a.which === b.which && a.i === b.i && a.j === b.j);
      if (!same(cell, this.looked)) this.refresh(cell);
    };
    canvas.addEventListener('mousemove', event => {
      if (!state.cell) look(cellAt(event));
    });
    canvas.addEventListener('mouseleave', () => {
      if (!state.cell) look(null);
    });
    canvas.addEventListener('click', event => {
      const at = cellAt(event), old = state.cell;
      state.cell = at && old && old.which === at.which && old.i === at.i && old.j === at.j ? null : at;
      this.refresh(state.cell);
      writeAddress();
    });
    canvas.addEventListener('keydown', event => {
      const from = state.cell && this.places(c, state.cell.which, state.cell.i, state.cell.j)[which];
      const at = map.moved(event, from ? {query: from[0], key: from[1]} : {query: null, key: null});
      if (!at) return;
      state.cell = from ? {which, i: at.query, j: at.key} : {which, i: 0, j: 0};
      this.refresh(state.cell);
      say(this.sentence(c, state.cell));
      writeAddress('later');
    });
  },

  /** What the cell says, in words. */
  sentence(c, {which, i, j}) {
    const at = this.places(c, which, i, j);
    const part = n => {
      const {name, query, key, grid} = c.maps[n];
      return at[name] && tr('cellSaid', {
               which: name,
               query: query.labels[at[name][0]].slice(0, 80),
               key: key.labels[at[name][1]].slice(0, 80),
               weight: weightText(grid.at(...at[name]))
             });
    };
    return [
      part(0), part(1),
      at.difference ? tr('differenceSaid', {value: signedNumber(c.maps[2].grid.at(...at.difference))}) : tr('noPair')
    ].filter(Boolean)
        .join('; ');
  },

  /** Draws the maps, with the cell looked at. */
  refresh(looked = state.cell) {
    const c = this.compared();
    const within = looked && c.maps.find(map => map.name === looked.which);
    const cell = within && looked.i < within.query.count && looked.j < within.key.count ? looked : null;
    const at = cell ? this.places(c, cell.which, cell.i, cell.j) : {};
    this.looked = cell;
    c.maps.forEach((map, n) => {
      const [query, key] = at[map.name] ?? [null, null];
      this.maps[n].show({query, key});
    });
    this.describe(c, cell, at);
  },

  /** How the n-th map is drawn. */
  options(c, n) {
    const {query, key} = c.maps[n];
    if (n < 2)
      return {
        top: c.top,
        palette: this.palette(),
        faintQueries: this.alone(c.queries, n, query),
        faintKeys: this.alone(c.keys, n, key)
      };
    return {top: c.most, palette: signed, room: 30, text: w => (w < 0 ? '\u2212' : '+') + shortWeight(Math.abs(w))};
  },

  palette() { return group().signed || group().other.signed ? signed : plain; },

  scales(c) {
    return [scaleOf(c.top, this.palette()), scaleOf(c.most, signed, tr('colorOfDifference'))];
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
      const rows = c.maps.slice(0, 2)
                       .filter(map => at[map.name])
                       .map(
                           map => make(
                               'tr', {}, make('th', {scope: 'row'}, map.name),
                               make(
                                   'td', {}, make('bdi', {class: 'token'}, map.query.labels[at[map.name][0]]),
                                   ' \u2192 ', make('bdi', {class: 'token'}, map.key.labels[at[map.name][1]])),
                               make('td', {class: 'value'}, weightText(map.grid.at(...at[map.name])))));
      if (at.difference)
        rows.push(make(
            'tr', {}, make('th', {scope: 'row', colSpan: 2}, 'B \u2212 A'),
            make('td', {class: 'value big'}, signedNumber(c.maps[2].grid.at(...at.difference)))));
      parts.push(make('table', {class: 'numbers pair'}, make('tbody', {}, ...rows)));
      if (!at.difference) parts.push(make('p', {class: 'faint'}, tr('noPartner')));
      if (state.cell)
        parts.push(make('p', {}, make('button', {type: 'button', onclick: () => change({cell: null})}, tr('release'))));
    } else {
      parts.push(make('p', {class: 'hint'}, tr(matchMedia('(hover: none)').matches ? 'hintTapCell' : 'hintPointCell')));
    }
    const order = c.moved.map((_, n) => n).sort((x, y) => c.moved[y] - c.moved[x] || x - y).slice(0, 10);
    if (c.moved[order[0]] > LEAST_MOVED)
      parts.push(
          make('h3', {}, tr('differMost')),
          make(
              'ol', {class: 'bars', id: 'moved'},
              ...order.map(
                  n => make(
                      'li', {},
                      make(
                          'button',
                          {type: 'button', class: 'link', 'data-head': String(n), onclick: () => change({heads: [n]})},
                          g.headName(n)),
                      make(
                          'span', {class: 'stack'},
                          make('i', {vars: {'--part': `${100 * Math.min(1, c.moved[n])}%`, '--color': headColor(0)}})),
                      make('span', {class: 'amount'}, percent(c.moved[n]))))),
          make('p', {class: 'faint'}, tr('differWhat')));
    const focus = focusOf(document.activeElement);
    const inside = this.detail.contains(document.activeElement);
    this.detail.replaceChildren(...parts);
    if (inside) restoreFocus(focus);
  },

  tools() {
    const g = group(), c = this.compared();
    return [
      choice(
          tr('pairTokens'),
          [...(this.canPairByPosition(g) ? [['position', tr('byPosition')]] : []), ['tokens', tr('thatAreEqual')]],
          c.by, pairing => change({pairing, cell: null})),
      liftTool(),
      ...this.scales(c).map(colorBar),
      headChanges.tool(),
    ].filter(Boolean);
  },

  paint(pen) {
    const c = this.compared(), gap = 24;
    // Cells have room for their numbers where there are not too many.
    const keys = Math.max(...c.maps.map(map => map.key.count));
    const boxes = this.boxes(c, Math.max(260, Math.min(1100, 150 + keys * 34)), Infinity);
    const width = Math.max(640, 20 + boxes.reduce((sum, box) => sum + Math.max(200, box.width) + gap, -gap));
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(
        10, 38, tr('fileBeside', {name: group().shownName, heads: headsName(), other: data.comparedTitle}),
        {size: 12, color: ink().faint, width: width - 20});
    const at = state.cell ? this.places(c, state.cell.which, state.cell.i, state.cell.j) : {};
    let x = 10;
    SHOWN_ORDER.forEach(n => {
      const map = c.maps[n];
      const own = Math.max(200, boxes[n].width), shifted = new ShiftedPen(pen, x, 72);
      const [query, key] = at[map.name] ?? [null, null];
      pen.text(x, 60, n < 2 ? map.heading : 'B \u2212 A', {size: 11, width: own});
      drawGrid(shifted, map.grid, map.query, map.key, boxes[n], this.options(c, n));
      drawLooked(shifted, map.grid, map.query, map.key, boxes[n], {query, key});
      x += own + gap;
    });
    let y = 72 + Math.max(...boxes.map(box => box.height)) + 10;
    pen.text(
        10, y, tr(c.by === 'position' ? 'filePairedByPosition' : 'filePairedByTokens'), {size: 10, color: ink().faint});
    if (state.cell) pen.text(10, y += 18, this.sentence(c, state.cell), {size: 11, width: width - 20});
    if (data.predictions.length) {
      pen.text(10, y += 24, tr('predictionsHeading'), {size: 11, width: width - 20});
      const across = 4, wide = (width - 20) / across;
      data.predictions.forEach(([token, a, b], i) => {
        const text = `${visible(token)}  ${percent(a)} \u2192 ${percent(b)}`;
        pen.text(10 + (i % across) * wide, y + 18 + 16 * Math.floor(i / across), text, {size: 11, width: wide - 8});
      });
      y += 18 + 16 * Math.ceil(data.predictions.length / across);
    }
    y += 20;
    this.scales(c).forEach((scale, n) => paintColorBar(pen, 10 + 320 * n, y, scale));
    return {width, height: y + 16};
  },

  csv() {
    const g = group(), o = g.other, {queries, keys} = this.compared();
    const none = length => Array.from({length}, () => ''), rest = data.predictions.length ? none(3) : [];
    const rows = [[
      'layer', 'head', 'query A', 'query token A', 'query B', 'query token B', 'key A', 'key token A', 'key B',
      'key token B', 'weight A', 'weight B', 'difference',
      ...(rest.length ? ['output token', 'probability A', 'probability B'] : [])
    ]];
    for (const n of state.heads) {
      const {layer, head} = g.head(n);
      for (const [i, i2] of queries) {
        const a = g.grids[n].row(i), b = o.grids[n].row(i2);
        for (const [j, j2] of keys)
          if (a[j] !== 0 || b[j2] !== 0)
            rows.push([
              layer + 1, head + 1, i + 1, g.query.raw[i], i2 + 1, o.query.raw[i2], j + 1, g.key.raw[j], j2 + 1,
              o.key.raw[j2], a[j], b[j2], b[j2] - a[j], ...rest
            ]);
      }
    }
    for (const prediction of data.predictions) rows.push([...none(13), ...prediction]);
    return rows;
  },
};
