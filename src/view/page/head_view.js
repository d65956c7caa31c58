// Some heads in detail: lines between tokens, one large map, the text itself, or the picture that tokens are patches
// of.
const displayOf = {
  lines: linesDisplay,
  map: mapDisplay,
  text: textDisplay,
  picture: pictureDisplay
};

const headView = {
  build(container) {
    const g = group(), d = derived();
    this.limitFocus(d);
    const stage = make('div', {class: 'stage', id: 'stage'});
    this.detail = make('aside', {class: 'detail', 'aria-label': tr('tokenLookedAt'), 'aria-live': 'off'});
    const notes = [];
    if (d.hidden >= 0)
      notes.push(make('p', {class: 'note', id: 'hidden-note'}, ...trParts('sinkHidden', {
                        token: make('bdi', {class: 'token'}, g.key.labels[g.sink.key]),
                        key: g.sink.key + 1,
                        share: percent(g.sink.mass)
                      })));
    if (d.words) notes.push(make('p', {class: 'note'}, tr('piecesMerged')));
    for (const n of state.heads)
      for (const note of g.notes[n] ?? [])
        notes.push(make('p', {class: 'note flag'}, `${g.headName(n)}: ${given(note)}`));
    stage.append(make('h3', {class: 'stagehead'}, ...this.display.heading(d)));
    this.display.build(stage, d);
    container.append(...notes, make('div', {class: 'headview'}, this.picker(g), stage, this.detail));
  },

  get display() { return displayOf[display()]; },

  ready() {
    this.display.ready?.(derived());
    this.refresh();
    if (display() === 'lines' && state.pinned) linesDisplay.seek(state.query ?? state.key);
  },

  limitFocus(d) {
    if (state.query !== null && state.query >= d.query.count) state.query = null;
    if (state.key !== null && state.key >= d.key.count) state.key = null;
  },

  /** The table of all heads; those shown carry their colour. */
  picker(g) {
    const choose = (n, add) => {
      let heads = [n];
      if (add) {
        heads = state.heads.includes(n) ? state.heads.filter(m => m !== n) : [...state.heads, n];
        if (!heads.length) heads = [n];
      }
      change({heads});
    };
    const rows = [];
    for (let l = 0; l < g.layers; ++l) {
      const all = Array.from({length: g.heads}, (_, h) => l * g.heads + h);
      rows.push(make(
          'tr', {},
          make(
              'th', {scope: 'row'},
              make(
                  'button', {
                    type: 'button',
                    class: 'link',
                    title: tr('allOfThisLayer'),
                    'aria-label': tr('allOfLayer', {layer: l + 1}),
                    onclick: () => change({heads: all})
                  },
                  String(l + 1))),
          ...all.map(n => {
            const at = state.heads.indexOf(n);
            const {role} = g.role(n);
            return make(
                'td', {},
                make(
                    'button', {
                      type: 'button',
                      class: 'pick',
                      'data-head': String(n),
                      'aria-pressed': String(at >= 0),
                      tabIndex: n === state.heads[0] ? 0 : -1,
                      'aria-label': [g.headName(n), role, this.changedIn(g, n)].filter(Boolean).join(', '),
                      title: [g.headName(n), role, this.changedIn(g, n)].filter(Boolean).join(': '),
                      'data-pattern': at >= 0 ? String(headPattern(at)) : null,
                      vars: at >= 0 ? {'--color': headColor(at)} : {},
                      onclick: event => choose(n, state.several || event.ctrlKey || event.metaKey || event.shiftKey),
                    },
                    this.small(g, n), g.notes[n] ? make('span', {class: 'flag'}, '!') : '',
                    headChanges.get(g, n) ? make('span', {class: 'changed'}, '\u2260') : ''));
          })));
    }
    const table = make(
        'table', {class: 'picker', id: 'picker', vars: {'--pick': g.heads > 8 ? '22px' : '28px'}},
        make('caption', {}, ...trParts('picker')), make('tbody', {}, ...rows));
    rove(table, '.pick', () => g.heads);
    const role = state.heads.length === 1 && g.role(state.heads[0]).role;
    return make(
        'aside', {class: 'side', 'aria-label': tr('heads')}, make('div', {class: 'picks'}, table),
        toggle(tr('several'), state.several, several => change({several}), tr('severalWhy')),
        make(
            'p', {class: 'chosen'},
            ...state.heads.slice(0, 32).map(
                (n, at) => make(
                    'span',
                    {class: 'swatch', 'data-pattern': String(headPattern(at)), vars: {'--color': headColor(at)}},
                    g.headName(n))),
            state.heads.length > 32 ? tr('andMore', {n: state.heads.length - 32}) : '',
            role ? make('span', {class: 'role'}, role) : ''));
  },

  changedIn(g, n) {
    const what = headChanges.get(g, n);
    return what && tr(`change_${what}`);
  },

  /** A head as a tiny map, drawn once for each theme. */
  small(g, n) {
    g.small ??= {};
    const canvas = g.small[theme() + state.lift + n] ??= thumbnail(g.grids[n], g.tops[n] || 1, 24, g.palette);
    canvas.className = 'tiny';
    return canvas;
  },

  /** Pointing, focusing and pinning, the same for all displays of tokens. */
  listeners(side, index) {
    const look = () => {
      if (state.pinned || state.restoring) return;
      cancelAnimationFrame(this.leaving);
      Object.assign(state, side === 'query' ? {query: index, key: null} : {key: index, query: null});
      viewOf[state.view].refresh();
    };
    return {
      onmouseenter: look,
      onfocus: () => {
        look();
        if (!state.restoring) say(rowInWords(derived(), side, index));
      },
      onmouseleave: () => this.leave(),
      onclick: () => this.pin(side, index),
      onkeydown: event => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        event.stopPropagation();
        this.pin(side, index);
      },
    };
  },

  /** Nothing is looked at any more, unless the pointer is on the next token by then. */
  leave() {
    const {query, key} = state;
    cancelAnimationFrame(this.leaving);
    this.leaving = requestAnimationFrame(() => {
      if (state.pinned || state.query !== query || state.key !== key) return;
      Object.assign(state, {query: null, key: null});
      viewOf[state.view].refresh();
    });
  },

  pin(side, index) {
    const same = state.pinned && (side === 'query' ? state.query === index : state.key === index);
    Object.assign(state, side === 'query' ? {query: index, key: null} : {key: index, query: null}, {pinned: !same});
    viewOf[state.view].refresh();
    writeAddress();
  },

  /** What changes when another token is looked at. */
  refresh() {
    const d = derived();
    this.display.refresh(d);
    this.detail.replaceChildren(...headDetail(d));
  },

  tools() {
    const g = group(), d = derived();
    return [
      make(
          'span', {class: 'segments', role: 'group', 'aria-label': tr('showAs')},
          ...displays().map(
              name => make(
                  'button', {
                    type: 'button',
                    'data-value': name,
                    'aria-pressed': String(display() === name),
                    onclick: () => change({display: name})
                  },
                  tr(`display_${name}`)))),
      (g.query.split || g.key.split) &&
          toggle(
              tr('wholeWords'), state.words, words => change({words, query: null, key: null, pinned: false}),
              tr('wholeWordsWhy')),
      g.shares && toggle(tr('hideSink'), state.hideSink, hideSink => change({hideSink}), tr('hideSinkWhy')),
      Math.max(d.query.count, d.key.count) > 24 && display() !== 'picture' && this.finder(d),
      display() === 'lines' && this.thresholdTool(),
      (display() === 'map' || display() === 'picture') && liftTool(),
      display() === 'map' && colorBar(mapDisplay.scale(d)),
      headChanges.tool(),
    ].filter(Boolean);
  },

  thresholdTool() {
    return make(
        'label', {class: 'choice'}, make('span', {}, tr('weightsFrom')), make('input', {
          type: 'range',
          min: '0',
          max: String(Math.max(1, unitOf(group()))),
          step: '0.005',
          value: String(state.threshold),
          id: 'threshold',
          'aria-label': tr('smallestWeight'),
          oninput: event => {
            state.threshold = Number(event.target.value);
            event.target.nextSibling.textContent = number(state.threshold);
            linesDisplay.strokes();
            writeAddress('later');
          }
        }),
        make('output', {'for': 'threshold'}, number(state.threshold)));
  },

  /** Finds tokens by their text: Enter goes on to the next. */
  finder(d) {
    const places = [
      ...d.query.labels.map((label, i) => [label.toLowerCase(), 'query', i]),
      ...(group().self ? [] : d.key.labels.map((label, i) => [label.toLowerCase(), 'key', i]))
    ];
    const count = make('output', {'for': 'find'});
    let found = [], at = 0;
    const go = () => {
      count.textContent = found.length ? tr('found', {at: at + 1, count: found.length}) : tr('foundNone');
      if (!found.length) return;
      const [, side, index] = found[at];
      Object.assign(state, {query: null, key: null, [side]: index, pinned: true});
      this.refresh();
      this.display.reveal(side, index);
      say(`${count.textContent}. ${rowInWords(derived(), side, index)}`);
      writeAddress('later');
    };
    const input = make('input', {
      type: 'search',
      id: 'find',
      placeholder: tr('findToken'),
      'aria-label': tr('findTokenLabel'),
      oninput: () => {
        const text = input.value.toLowerCase();
        [found, at] = [text ? places.filter(([label]) => label.includes(text)) : [], 0];
        if (text)
          go();
        else
          count.textContent = '';
      },
      onkeydown: event => {
        if (event.key !== 'Enter' || !found.length) return;
        at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
        go();
      }
    });
    return make('label', {class: 'choice'}, input, count);
  },

  paint(pen) {
    const d = derived();
    const one = display() === 'map' || display() === 'picture' || state.heads.length === 1;
    const heading = `${group().shownName}, ${one ? headsName() : tr('headCount', {n: state.heads.length})}`;
    const note = [
      d.hidden >= 0 && tr('fileKeyHidden', {key: group().sink.key + 1}), d.words && tr('filePieces'),
      display() === 'lines' && tr('weightsFromValue', {value: number(state.threshold)})
    ].filter(Boolean).join('; ');
    const {width, height} = this.display.paint(new ShiftedPen(pen, 10, 56), d), whole = Math.max(320, width + 20);
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: whole - 20});
    pen.text(10, 38, heading + (note ? ` (${note})` : ''), {size: 12, color: ink().faint, width: whole - 20});
    return {width: whole, height: height + 64};
  },

  csv() {
    const g = group(), d = derived();
    const rows = [['layer', 'head', 'query', 'query token', 'key', 'key token', 'weight']];
    d.grids.forEach((grid, n) => {
      const {layer, head} = g.head(state.heads[n]);
      for (let i = 0; i < grid.rows; ++i) {
        grid.each(i, (j, w) => rows.push([layer + 1, head + 1, i + 1, d.query.raw[i], j + 1, d.key.raw[j], w]));
        if (grid.dropped[i] !== 0)
          rows.push([layer + 1, head + 1, i + 1, d.query.raw[i], '', '(not stored)', grid.dropped[i]]);
      }
    });
    return rows;
  },
};
