// Some heads in detail: lines between tokens, one big map, or the text itself.
const rowHeight = tokens => (tokens <= 16 ? 32 : tokens <= 40 ? 26 : tokens <= 160 ? 20 : 16);

/** For each key (or query) the weights of all chosen heads: [[weights of head 0], ...]; of a row, or of a column. */
function weightsOf(d, side, index) {
  return d.grids.map(grid => (side === 'query' ? grid.row(index) : grid.column(index)));
}

const headView = {
  build(container) {
    const g = group(), d = derived();
    this.limitFocus(d);
    const stage = make('div', {class: 'stage', id: 'stage'});
    this.detail = make('aside', {class: 'detail', 'aria-label': 'The token looked at', 'aria-live': 'off'});
    const notes = [];
    if (d.hidden >= 0)
      notes.push(make('p', {class: 'note', id: 'hidden-note'}, 'The token ', make('bdi', {class: 'token'}, g.key.labels[g.sink.key]), ` (key ${g.sink.key + 1}, which receives ${percent(g.sink.mass)} of all attention of this tab) is hidden. What is left of each row is divided by its sum, so that it sums to 1 again.`));
    if (d.words) notes.push(make('p', {class: 'note'}, 'Pieces are merged into words: the weights of a word\u2019s keys are summed, the rows of its queries averaged.'));
    for (const n of state.heads) for (const note of g.notes[n] ?? []) notes.push(make('p', {class: 'note flag'}, `${g.headName(n)}: ${note}`));
    if (state.display === 'lines') this.lines(stage, d);
    else if (state.display === 'map') this.map(stage, d);
    else this.text(stage, d);
    container.append(...notes, make('div', {class: 'headview'}, this.picker(g), stage, this.detail));
  },

  ready() {
    this.refresh();
    if (this.scroller && state.pinned && state.query !== null)
      this.lists?.query[state.query]?.scrollIntoView({block: 'nearest'});
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
      rows.push(make('tr', {}, make('th', {scope: 'row'}, make('button', {type: 'button', class: 'link', title: 'all heads of this layer', 'aria-label': `all heads of layer ${l + 1}`, onclick: () => change({heads: all})}, String(l + 1))),
        ...all.map(n => {
          const at = state.heads.indexOf(n);
          const {role} = g.role(n);
          return make('td', {}, make('button', {
            type: 'button', class: 'pick', 'data-head': String(n), 'aria-pressed': String(at >= 0), tabIndex: n === state.heads[0] ? 0 : -1,
            'aria-label': g.headName(n) + (role ? `, ${role}` : ''), title: g.headName(n) + (role ? `: ${role}` : ''),
            vars: at >= 0 ? {'--color': headColor(at)} : {}, onclick: event => choose(n, state.several || event.ctrlKey || event.metaKey || event.shiftKey),
          }, this.small(g, n), g.notes[n] ? make('span', {class: 'flag'}, '!') : ''));
        })));
    }
    const table = make('table', {class: 'picker', id: 'picker', vars: {'--pick': g.heads > 8 ? '22px' : '28px'}}, make('caption', {}, 'Heads (across) of each layer (down)'),
      make('tbody', {}, ...rows));
    rove(table, '.pick', () => g.heads);
    const role = state.heads.length === 1 && g.role(state.heads[0]).role;
    return make('aside', {class: 'side', 'aria-label': 'Heads'}, table,
      toggle('choose several', state.several, several => change({several}), 'or hold Shift or Ctrl while choosing'),
      make('p', {class: 'chosen'}, ...state.heads.slice(0, 12).map((n, at) => make('span', {class: 'swatch', vars: {'--color': headColor(at)}}, g.headName(n))), state.heads.length > 12 ? ` and ${state.heads.length - 12} more` : '', role ? make('span', {class: 'role'}, role) : ''));
  },

  /** A head as a tiny map, drawn once for each theme. */
  small(g, n) {
    g.small ??= {};
    const canvas = g.small[theme() + state.lift + n] ??= thumbnail(g.grids[n], g.tops[n] || 1, 24);
    canvas.className = 'tiny';
    return canvas;
  },

  /** Pointing, focusing and pinning, the same for all three displays. */
  listeners(side, index) {
    const look = () => {
      if (state.pinned || state.restoring) return;
      Object.assign(state, side === 'query' ? {query: index, key: null} : {key: index, query: null});
      this.refresh();
    };
    return {
      onmouseenter: look,
      onfocus: look,
      onmouseleave: () => {
        if (state.pinned) return;
        Object.assign(state, {query: null, key: null});
        this.refresh();
      },
      onclick: () => this.pin(side, index),
      onkeydown: event => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        event.stopPropagation();
        this.pin(side, index);
      },
    };
  },

  pin(side, index) {
    const same = state.pinned && (side === 'query' ? state.query === index : state.key === index);
    Object.assign(state, side === 'query' ? {query: index, key: null} : {key: index, query: null}, {pinned: !same});
    this.refresh();
    writeAddress();
  },

  tokenList(d, side, tokens, size) {
    const name = side === 'query' ? 'Queries: who looks' : 'Keys: what is looked at';
    const list = make('ul', {class: `tokens ${side}`, role: 'listbox', 'aria-label': name, id: `tokens-${side}`});
    tokens.labels.forEach((label, i) => list.append(make('li', {
      role: 'option', tabIndex: i === 0 ? 0 : -1, 'data-token': String(i), 'aria-selected': 'false', vars: {'--row': `${size}px`},
      class: side === 'key' && i === d.hidden ? 'gone' : '', title: label.length > 24 ? label.slice(0, 300) : null, ...this.listeners(side, i),
    }, make('bdi', {}, tokenText(tokens, i)), make('span', {class: 'amount'}))));
    rove(list, 'li');
    list.addEventListener('keydown', event => {
      const other = {ArrowRight: side === 'query', ArrowLeft: side === 'key'}[event.key];
      if (!other) return;
      const target = this.lists[side === 'query' ? 'key' : 'query'];
      event.stopImmediatePropagation();
      event.preventDefault();
      target[Math.min(target.length - 1, Number(event.target.dataset.token))]?.focus();
    }, true);
    return list;
  },

  lines(stage, d) {
    const size = rowHeight(Math.max(d.query.count, d.key.count));
    const left = this.tokenList(d, 'query', d.query, size), right = this.tokenList(d, 'key', d.key, size);
    this.lists = {query: [...left.children], key: [...right.children]};
    this.canvas = make('canvas', {class: 'threads', 'aria-hidden': 'true'});
    this.size = size;
    const middle = make('div', {class: 'middle'}, this.canvas);
    this.scroller = make('div', {class: 'bipartite', vars: {'--length': `${size * Math.max(d.query.count, d.key.count)}px`}}, left, middle, right);
    this.scroller.addEventListener('scroll', () => this.strokes(), {passive: true});
    stage.append(make('div', {class: 'ends', 'aria-hidden': 'true'}, make('span', {}, 'queries look'), make('span', {}, 'at keys')), this.scroller);
  },

  /** The lines that can be seen. */
  strokes() {
    const d = derived(), box = this.scroller;
    if (!box?.isConnected || state.display !== 'lines') return;
    const length = this.size * Math.max(d.query.count, d.key.count);
    const height = paper.printing ? Math.min(length, 12000) : box.clientHeight, top = paper.printing ? 0 : box.scrollTop;
    const width = Math.max(30, this.canvas.parentElement.clientWidth);
    const context = sizeCanvas(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    this.drawLines(new CanvasPen(context), d, width, -top, -60, height + 60);
  },

  /** Lines from (0, y of the query) to (width, y of the key), those with an end between low and high. */
  drawLines(pen, d, width, shift, low, high) {
    const y = i => shift + (i + 0.5) * this.size, inside = v => v >= low && v <= high;
    const looked = state.query !== null || state.key !== null;
    const busy = d.query.count * state.heads.length > 400;
    for (const strong of looked ? [false, true] : [true]) {
      d.grids.forEach((grid, n) => {
        const color = headColor(n);
        for (let i = 0; i < grid.rows; ++i) {
          const from = y(i), near = inside(from);
          for (let e = grid.start[i]; e < grid.start[i + 1]; ++e) {
            const w = grid.weight[e], j = grid.key[e];
            if (w < state.threshold) continue;
            if (looked && ((state.query === i || state.key === j) !== strong)) continue;
            const to = y(j);
            if (!near && !inside(to)) continue;
            const t = Math.min(1, w);
            pen.curve(0, from, width, to, color, 0.6 + 3 * t, strong ? (busy && !looked ? 0.12 + 0.8 * t : 0.22 + 0.75 * t) : 0.05 + 0.1 * t);
          }
        }
      });
    }
  },

  text(stage, d) {
    const g = group();
    const flow = (side, tokens, heading) => {
      const box = make('div', {class: 'flow', role: 'listbox', id: `tokens-${side}`, 'aria-label': heading, dir: 'auto'});
      tokens.labels.forEach((label, i) => box.append(make('span', {
        role: 'option', class: (tokens.continues(i) ? 'piece' : 'piece begins') + (side === 'key' && i === d.hidden ? ' gone' : ''), tabIndex: i === 0 ? 0 : -1, 'data-token': String(i), ...this.listeners(side, i),
      }, make('bdi', {}, label)), tokens.continues(i + 1) ? '' : ' '));
      rove(box, '.piece');
      return box;
    };
    const query = flow('query', d.query, 'Queries');
    this.lists = {query: [...query.children]};
    stage.append(make('h3', {}, g.self ? 'Text: point at a token, the others are coloured by how much it attends to them' : 'Queries: point at one'), query);
    if (g.self) {
      this.lists.key = this.lists.query;
    } else {
      const key = flow('key', d.key, 'Keys');
      this.lists.key = [...key.children];
      stage.append(make('h3', {}, 'Keys, coloured by the weight they get'), key);
    }
  },

  map(stage, d) {
    this.space = Math.max(240, (document.getElementById('view').clientWidth || 800) - (innerWidth > 1000 ? 560 : 10));
    this.mapBox = mapSize(d.query, d.key, this.space);
    const {label, head, cell, width, height} = this.mapBox;
    const canvas = makeCanvas(width, height, {class: 'bigmap', id: 'map', tabIndex: 0, role: 'img', 'aria-label': `Map of ${headsName()}: ${d.query.count} queries by ${d.key.count} keys. Arrow keys move over the cells.`});
    this.canvas = canvas;
    const cellAt = event => {
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - label) / cell), i = Math.floor((event.clientY - box.top - head) / cell);
      if (i >= d.query.count || j >= d.key.count || (i < 0 && j < 0)) return null;
      return {query: i < 0 ? null : i, key: j < 0 ? null : j};
    };
    const look = at => {
      Object.assign(state, at ?? {query: null, key: null});
      this.refresh();
    };
    canvas.addEventListener('mousemove', event => { if (!state.pinned) look(cellAt(event)); });
    canvas.addEventListener('mouseleave', () => { if (!state.pinned) look(null); });
    canvas.addEventListener('click', event => {
      const at = cellAt(event);
      const same = state.pinned && at && at.query === state.query && at.key === state.key;
      state.pinned = Boolean(at) && !same;
      look(at);
      writeAddress();
    });
    canvas.addEventListener('keydown', event => {
      const move = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1]}[event.key];
      if (!move) return;
      event.preventDefault();
      const next = (value, by, count) => Math.max(0, Math.min(count - 1, (value ?? (by ? -1 : 0)) + by));
      state.pinned = true;
      look({query: next(state.query, move[0], d.query.count), key: next(state.key, move[1], d.key.count)});
      say(`${d.query.labels[state.query].slice(0, 80)} attends to ${d.key.labels[state.key].slice(0, 80)}: ${number(d.mean.at(state.query, state.key))}`);
    });
    stage.append(make('h3', {}, headsName()), make('div', {class: 'scroll'}, canvas));
  },

  drawMap(pen, d, box) {
    drawGrid(pen, d.mean, d.query, d.key, box, {top: d.mean.largest() || 1, query: state.query, key: state.key, faintKeys: j => j === d.hidden});
  },

  /** What changes when another token is looked at. */
  refresh() {
    const d = derived();
    if (state.display !== 'map') this.shade(d);
    if (state.display === 'lines') this.strokes();
    if (state.display === 'map' && this.canvas?.id === 'map') {
      const context = sizeCanvas(this.canvas, this.mapBox.width, this.mapBox.height);
      this.drawMap(new CanvasPen(context), d, this.mapBox);
    }
    this.describe(d);
  },

  /** Colours and numbers beside the tokens on the other side of the one looked at. */
  shade(d) {
    const self = this.lists.query === this.lists.key;
    const look = (side, index) => {
      const other = side === 'query' ? 'key' : 'query';
      const per = index === null ? null : weightsOf(d, side, index);
      this.lists[other].forEach((element, i) => {
        const total = per ? per.reduce((sum, weights) => sum + weights[i], 0) / per.length : 0;
        const strongest = per ? per.reduce((best, weights, n) => (weights[i] > per[best][i] ? n : best), 0) : 0;
        element.classList.toggle('lit', total >= 0.005);
        element.style.setProperty('--weight', String(Math.min(1, total)));
        element.style.setProperty('--color', headColor(strongest));
        const amount = element.querySelector('.amount');
        if (amount) amount.textContent = total >= 0.005 ? number(total) : '';
      });
    };
    if (!self || state.query !== null || state.key === null) look('query', state.query);
    if (!self || state.key !== null) look('key', state.key);
    for (const side of ['query', 'key'])
      this.lists[side].forEach((element, i) => {
        const chosen = state[side] === i || (self && (state.query === i || state.key === i));
        element.classList.toggle('looked', chosen);
        element.setAttribute('aria-selected', String(chosen));
      });
  },

  describe(d) {
    const parts = [];
    const bars = (side, index, title) => {
      const tokens = side === 'query' ? d.key : d.query, per = weightsOf(d, side, index);
      const scale = side === 'query' ? per.length : 1;
      const total = i => per.reduce((sum, weights) => sum + weights[i], 0) / per.length;
      const order = Array.from({length: tokens.count}, (_, i) => i).filter(i => total(i) > 0).sort((a, b) => total(b) - total(a)).slice(0, 12);
      const most = Math.max(1e-9, ...order.map(total));
      parts.push(make('h3', {}, title), make('ol', {class: 'bars'}, ...order.map(i => make('li', {},
        make('bdi', {class: 'token', title: tokens.labels[i].slice(0, 300)}, tokenText(tokens, i)),
        make('span', {class: 'stack'}, ...per.map((weights, n) => make('i', {vars: {'--part': `${100 * weights[i] / per.length / most}%`, '--color': headColor(n)}}))),
        make('span', {class: 'amount'}, number(total(i)))))));
      if (!order.length) parts.push(make('p', {class: 'faint'}, 'nothing'));
    };
    const whole = label => make('bdi', {class: 'whole'}, label);
    if (state.query !== null && state.key !== null) {
      parts.push(make('h2', {}, whole(d.query.labels[state.query]), ' \u2192 ', whole(d.key.labels[state.key])),
                 make('p', {class: 'big'}, number(d.mean.at(state.query, state.key))),
                 make('p', {class: 'faint'}, `query ${state.query + 1}, key ${state.key + 1}, ${headsName()}`));
      bars('query', state.query, 'attends to');
    } else if (state.query !== null) {
      const dropped = d.mean.dropped[state.query];
      const sum = d.mean.row(state.query).reduce((a, b) => a + b, 0);
      parts.push(make('h2', {}, whole(d.query.labels[state.query])), make('p', {class: 'faint'}, `query ${state.query + 1} of ${d.query.count}`));
      bars('query', state.query, 'attends to');
      if (Number.isNaN(dropped)) parts.push(make('p', {class: 'flag'}, 'This row has weights that are below 0 or not finite; they are left out.'));
      else if (sum + dropped < 1e-6) parts.push(make('p', {class: 'flag'}, 'This row is all zero.'));
      else if (Math.abs(sum + dropped - 1) > 0.002) parts.push(make('p', {class: 'flag'}, `This row sums to ${number(sum + dropped)}, not to 1.`));
      if (dropped > 5e-5) parts.push(make('p', {class: 'faint'}, `and ${percent(dropped)} spread over keys that are not stored`));
    } else if (state.key !== null) {
      parts.push(make('h2', {}, whole(d.key.labels[state.key])), make('p', {class: 'faint'}, `key ${state.key + 1} of ${d.key.count}`));
      bars('key', state.key, 'is attended to by');
    } else {
      parts.push(make('p', {class: 'hint'}, matchMedia('(hover: none)').matches ? 'Tap a token to see its row or column.' : 'Point at a token to see its row or column; click to keep it.'));
      if (state.heads.length === 1) parts.push(make('h3', {}, group().headName(state.heads[0])), figureList(group(), state.heads[0]));
    }
    if (state.pinned) parts.push(make('p', {}, make('button', {type: 'button', onclick: () => change({query: null, key: null, pinned: false})}, 'let go (Esc)')));
    const g = group(), head = g.head(state.heads[0]);
    if (g.hasVectors(head.layer) && state.query !== null && !d.words)
      parts.push(make('p', {}, make('button', {type: 'button', onclick: () => change({view: 'inside', pinned: true})}, 'how this row was computed')));
    this.detail.replaceChildren(...parts);
  },

  tools() {
    const g = group(), d = derived();
    const slider = make('input', {type: 'range', min: '0', max: '0.5', step: '0.005', value: String(state.threshold), id: 'threshold', 'aria-label': 'Smallest weight that is drawn',
      oninput: event => {
        state.threshold = Number(event.target.value);
        event.target.nextSibling.textContent = number(state.threshold);
        this.strokes();
      }});
    return [
      make('span', {class: 'segments', role: 'group', 'aria-label': 'Show as'}, ...[['lines', 'Lines'], ['map', 'Map'], ['text', 'Text']].map(([name, label]) =>
        make('button', {type: 'button', 'data-value': name, 'aria-pressed': String(state.display === name), onclick: () => change({display: name, pinned: false, query: null, key: null})}, label))),
      state.display === 'lines' && make('label', {class: 'choice'}, make('span', {}, 'weights from'), slider, make('output', {for: 'threshold'}, number(state.threshold))),
      (g.query.split || g.key.split) && toggle('whole words', state.words, words => change({words, query: null, key: null, pinned: false}), 'merge the pieces of a word'),
      toggle('hide the sink', state.hideSink, hideSink => change({hideSink}), 'leave out the key that receives most attention, and renormalise'),
      state.display === 'map' && liftTool(),
      state.display === 'map' && colorBar(number(d.mean.largest())),
    ].filter(Boolean);
  },

  paint(pen) {
    const d = derived();
    const heading = `${group().name}, ${state.display === 'map' || state.heads.length === 1 ? headsName() : `${state.heads.length} heads`}`;
    const note = [d.hidden >= 0 && `key ${group().sink.key + 1} hidden, rows renormalised`, d.words && 'pieces merged into words'].filter(Boolean).join('; ');
    const title = width => {
      pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
      pen.text(10, 38, heading + (note ? ` (${note})` : ''), {size: 12, color: ink().faint, width: width - 20});
    };
    if (state.display === 'map') {
      const box = mapSize(d.query, d.key, Math.max(400, Math.min(2000, d.key.count * 24)));
      title(Math.max(320, box.width));
      this.drawMap(new ShiftedPen(pen, 10, 52), d, box);
      return {width: Math.max(320, box.width + 20), height: box.height + 62};
    }
    this.size = rowHeight(Math.max(d.query.count, d.key.count));
    const left = Math.max(60, widest(d.query.labels.map((_, i) => tokenText(d.query, i)), 13, 220)) + 10;
    const right = Math.max(60, widest(d.key.labels.map((_, i) => tokenText(d.key, i)), 13, 220)) + 10, middle = 260;
    const width = left + middle + right + 20, length = this.size * Math.max(d.query.count, d.key.count);
    title(width);
    const size = Math.min(13, this.size - 3);
    d.query.labels.forEach((_, i) => pen.text(left, 60 + (i + 0.5) * this.size, tokenText(d.query, i), {size, align: 'right', width: left - 8, bold: state.query === i}));
    d.key.labels.forEach((_, j) => pen.text(20 + left + middle - 8, 60 + (j + 0.5) * this.size, tokenText(d.key, j), {size, width: right - 8, bold: state.key === j, color: j === d.hidden ? ink().faint : undefined}));
    this.drawLines(new ShiftedPen(pen, left + 6, 60), d, middle, 0, -Infinity, Infinity);
    let y = 60 + length + 18;
    if (state.heads.length > 1)
      state.heads.slice(0, 24).forEach((n, at) => {
        pen.rect(10, y - 5, 10, 10, headColor(at));
        pen.text(26, y, group().headName(n), {size: 11});
        y += 16;
      });
    return {width, height: y};
  },

  csv() {
    const g = group(), d = derived();
    const rows = [['layer', 'head', 'query', 'query token', 'key', 'key token', 'weight']];
    d.grids.forEach((grid, n) => {
      const {layer, head} = g.head(state.heads[n]);
      for (let i = 0; i < grid.rows; ++i) {
        grid.each(i, (j, w) => rows.push([layer + 1, head + 1, i + 1, d.query.raw[i], j + 1, d.key.raw[j], w]));
        if (grid.dropped[i] !== 0) rows.push([layer + 1, head + 1, i + 1, d.query.raw[i], '', '(not stored)', grid.dropped[i]]);
      }
    });
    return rows;
  },
};
