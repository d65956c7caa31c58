// Heads as lines from queries to keys, and what lists of tokens have in common.

/** Of a row of tokens; on paper so that they fit on a sheet. */
function rowHeight(tokens) {
  const usual = tokens <= 16 ? 32 : tokens <= 40 ? 26 : tokens <= 160 ? 20 : 16;
  return paper.printing ? Math.max(8, Math.min(usual, Math.floor(680 / tokens))) : usual;
}

/** For each key (or query) the weights of all chosen heads: [[weights of head 0], ...]; of a row, or of a column. */
function weightsOf(d, side, index) {
  return d.grids.map(grid => (side === 'query' ? grid.row(index) : grid.column(index)));
}

/** What a weight of 1 is to lines and shades: the largest where weights may be of any size. */
const unitOf = g => (g.signed || !g.shares ? g.top : 1);

/** The mean over the heads, and which head has most: of each token on the other side of the one looked at. */
function sharesOf(per) {
  return Array.from(
      per[0] ?? [],
      (_, i) => ({
        total: per.reduce((sum, weights) => sum + weights[i], 0) / per.length,
        strongest: per.reduce((best, weights, n) => (Math.abs(weights[i]) > Math.abs(per[best][i]) ? n : best), 0)
      }));
}

const seen = total => Math.abs(total) >= 0.005 * Math.min(1, unitOf(group())) || Number.isNaN(total);

/** The shade of a token that has the weight `total`, [r, g, b], or null where it has none to be seen. */
function shadeOf({total, strongest}) {
  if (!seen(total) || Number.isNaN(total)) return null;
  const t = Math.min(1, Math.abs(total) / unitOf(group()));
  return mixed(bytesOf(ink().back), weightColor(total, strongest), 0.8 * t);
}

/** What a screen reader says of a row: "dog: perro 98 %, el 1 %". `weights` are those of the tokens `labels`. */
function sharesInWords(name, labels, weights) {
  const shares = Array.from(weights, (w, i) => [w, i])
                     .filter(([w]) => seen(w))
                     .sort(([a], [b]) => Math.abs(b) - Math.abs(a))
                     .slice(0, 5)
                     .map(([w, i]) => `${labels[i].slice(0, 80)} ${group().amount(w)}`);
  return `${name}: ${shares.join(tr('listSeparator')) || tr('nothing')}`;
}

/** The same of a row or a column of what is shown. */
function rowInWords(d, side, index) {
  const token = (side === 'query' ? d.query : d.key).labels[index].slice(0, 80);
  return sharesInWords(
      side === 'query' ? token : tr('rowLookedAtBy', {token}), (side === 'query' ? d.key : d.query).labels,
      sharesOf(weightsOf(d, side, index)).map(({total}) => total));
}

/** Colours and numbers beside the tokens on the other side of the one looked at. */
class TokenShades {
  /** `lists`: {query, key} of elements by number, of which some may be missing; one list may be both. */
  constructor(lists) {
    Object.assign(this, {lists, self: lists.query === lists.key});
    this.shares = {query: new Map(), key: new Map()};
    this.looked = {query: null, key: null};
  }

  /** Shows what `state` looks at. */
  show(d) {
    const before = this.shares, looked = this.looked;
    this.looked = {query: state.query, key: state.key};
    this.shares = {query: new Map(), key: new Map()};
    // Of one list a column covers a row.
    for (const side of this.self && state.key !== null ? ['key'] : ['query', 'key']) {
      if (state[side] === null) continue;
      const to = this.shares[side === 'query' ? 'key' : 'query'];
      sharesOf(weightsOf(d, side, state[side])).forEach((share, i) => seen(share.total) && to.set(i, share));
    }
    if (this.self) this.shares.query = this.shares.key = new Map([...this.shares.query, ...this.shares.key]);
    const chosen = [looked.query, looked.key, state.query, state.key];
    for (const side of ['query', 'key'])
      for (const i of new Set([...before[side].keys(), ...this.shares[side].keys(), ...chosen])) this.mark(side, i);
  }

  /** Marks token i of a side as it is now. */
  mark(side, i) {
    const element = this.lists[side][i], share = this.shares[side].get(i);
    if (!element) return;
    const shade = share ? shadeOf(share) : null;
    element.classList.toggle('lit', Boolean(shade));
    element.classList.toggle('hatched', Number.isNaN(share?.total));
    element.style.setProperty('--fill', shade ? css(shade) : '');
    element.style.setProperty('--on', shade ? textOn(shade) : '');
    const amount = element.querySelector('.amount');
    if (amount) amount.textContent = share ? weightText(share.total) : '';
    const chosen = state[side] === i || (this.self && (state.query === i || state.key === i));
    element.classList.toggle('looked', chosen);
    element.setAttribute('aria-selected', String(chosen));
  }
}

const MANY_ROWS = 160;       // of which no screen shows more than a part
const ROWS_BEYOND = 60;      // of tokens above and below the window: of longer lists no others exist
const MOST_FROM_AFAR = 300;  // lines that a key in the window gets from queries outside it, the heaviest

const linesDisplay = {
  heading(d) {
    const count = Math.max(d.query.count, d.key.count);
    if (count <= MANY_ROWS) return trParts('linesHeading');
    const all = make(
        'button', {type: 'button', class: 'link', 'data-value': 'as-map', onclick: () => change({display: 'map'})},
        tr('linesAsMap', {count}));
    return [...trParts('linesHeading'), ' \u00b7 ', all];
  },

  build(stage, d) {
    const count = Math.max(d.query.count, d.key.count);
    this.size = rowHeight(count);
    this.lists = {query: [], key: []};
    this.stops = {query: 0, key: 0};  // where the tab key leads to
    this.shades = new TokenShades(this.lists);
    this.places = {query: this.tokenList(d, 'query'), key: this.tokenList(d, 'key')};
    this.canvas = make('canvas', {class: 'threads', 'aria-hidden': 'true'});
    this.kept = {canvas: make('canvas')};
    this.scroller = make(
        'div', {class: 'bipartite', vars: {'--length': `${this.size * count}px`, '--row': `${this.size}px`}},
        this.places.query, make('div', {class: 'middle'}, this.canvas), this.places.key);
    // The same text stays where it was.
    const id = [group().index, d.query.count, d.key.count].join();
    if (this.id !== id) [this.id, this.row] = [id, 0];
    this.scroller.addEventListener('scroll', () => {
      this.row = this.scroller.scrollTop / this.size;
      this.fill();
      this.strokes();
    }, {passive: true});
    stage.append(this.scroller);
  },

  /** As soon as the height of the window is known. */
  ready() {
    if (!paper.printing) this.scroller.scrollTop = this.row * this.size;
    this.fill();
  },

  tokenList(d, side) {
    const tokens = d[side], name = tr(side === 'query' ? 'queriesWhoLook' : 'keysLookedAt');
    const list = make('ul', {
      class: `tokens ${side}`,
      role: 'listbox',
      'aria-label': name,
      id: `tokens-${side}`,
      // In em: paper has letters of another size.
      vars: {'--wide': `${widest(tokens.labels.map((_, i) => tokenText(tokens, i)), 14, 220) / 14}em`},
    });
    list.addEventListener('keydown', event => this.move(event, side));
    // The token that has the focus stays when it is scrolled out of sight.
    list.addEventListener('focusin', event => {
      const before = this.lists[side][this.stops[side]];
      if (before) before.tabIndex = -1;
      event.target.tabIndex = 0;
      this.stops[side] = Number(event.target.dataset.token);
    });
    return list;
  },

  token(d, side, i) {
    const tokens = d[side], label = tokens.labels[i];
    return make(
        'li', {
          role: 'option',
          tabIndex: i === this.stops[side] ? 0 : -1,
          'data-token': String(i),
          'aria-selected': 'false',
          'aria-setsize': String(tokens.count),
          'aria-posinset': String(i + 1),
          vars: {'--at': String(i)},
          class: side === 'key' && i === d.hidden ? 'gone' : '',
          title: label.length > 24 ? label.slice(0, 300) : null,
          ...headView.listeners(side, i),
        },
        make('bdi', {}, tokenText(tokens, i)), make('span', {class: 'amount'}));
  },

  /** Makes the tokens that are near the window, and takes others away; on paper all are there. */
  fill() {
    const d = derived(), box = this.scroller;
    const low = paper.printing ? 0 : Math.floor(box.scrollTop / this.size) - ROWS_BEYOND;
    const high = paper.printing ? Infinity : Math.ceil((box.scrollTop + box.clientHeight) / this.size) + ROWS_BEYOND;
    for (const side of ['query', 'key']) {
      const list = this.lists[side], stop = this.stops[side];
      list.forEach((element, i) => {
        if ((i >= low && i < high) || i === stop) return;
        element.remove();
        delete list[i];
      });
      const add = (i, before) => {
        if (list[i]) return;
        list[i] = this.token(d, side, i);
        this.places[side].insertBefore(list[i], before ?? null);
        this.shades.mark(side, i);
      };
      if (stop >= high) add(stop, null);
      let next = stop >= high ? list[stop] : null;
      for (let i = Math.min(d[side].count, high) - 1; i >= Math.max(0, low); next = list[i--]) add(i, next);
      if (stop < low) add(stop, next);
    }
  },

  /** The arrow keys move within a list and to the other one. */
  move(event, side) {
    const at = Number(event.target.dataset.token), last = derived()[side].count - 1;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.size) - 1);
    const to = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last};
    const across = {ArrowRight: 'key', ArrowLeft: 'query'}[event.key];
    if (across && across !== side)
      this.focus(across, at);
    else if (event.key in to)
      this.focus(side, to[event.key]);
    else
      return;
    event.preventDefault();
  },

  focus(side, index) {
    const i = Math.max(0, Math.min(derived()[side].count - 1, index));
    this.bring(i);
    this.lists[side][i].focus({preventScroll: true});
  },

  /** Scrolls as little as shows token i. */
  bring(i) {
    const box = this.scroller, y = i * this.size;
    box.scrollTop = Math.max(y + this.size - box.clientHeight, Math.min(y, box.scrollTop));
    this.fill();
  },

  /** Scrolls so that token i stands in the middle. */
  centre(i) {
    this.scroller.scrollTop = (i + 0.5) * this.size - this.scroller.clientHeight / 2;
    this.fill();
  },

  /** The same where it is out of sight. */
  seek(i) {
    const {scrollTop, clientHeight} = this.scroller, y = i * this.size;
    if (y < scrollTop || y + this.size > scrollTop + clientHeight) this.centre(i);
  },

  reveal(side, i) {
    this.scroller.scrollIntoView({block: 'nearest'});
    this.centre(i);
  },

  refresh(d) {
    this.shades.show(d);
    this.strokes();
  },

  /** The lines that can be seen. Those that are there whichever token is looked at are kept until the view moves. */
  strokes() {
    const d = derived(), box = this.scroller;
    if (!box?.isConnected) return;
    const length = this.size * Math.max(d.query.count, d.key.count);
    const height = paper.printing ? Math.min(length, 12000) : box.clientHeight,
          top = paper.printing ? 0 : box.scrollTop;
    const width = Math.max(30, this.canvas.parentElement.clientWidth);
    const looked = state.query !== null || state.key !== null;
    const draw = (context, strong) =>
        this.drawLines(new CanvasPen(context), d, width, -top, -60, height + 60, this.size, strong);
    const id = [width, height, top, looked, state.threshold, theme(), window.devicePixelRatio].join();
    if (this.kept.of !== d || this.kept.id !== id) {
      Object.assign(this.kept, {of: d, id});
      draw(sizeCanvas(this.kept.canvas, width, height), !looked);
      this.context = sizeCanvas(this.canvas, width, height);
    }
    this.context.clearRect(0, 0, width, height);
    this.context.drawImage(this.kept.canvas, 0, 0, width, height);
    if (looked) draw(this.context, true);
  },

  /**
     Lines from (0, y of the query) to (width, y of the key), those with an end between low and high. Where a token is
     looked at, all are faint, and those of the token, which are `strong`, are drawn over them.
   */
  drawLines(pen, d, width, shift, low, high, size, strong) {
    const y = i => shift + (i + 0.5) * size;
    const first = Math.max(0, Math.ceil((low - shift) / size - 0.5)), end = Math.floor((high - shift) / size + 0.5);
    const some = strong && (state.query !== null || state.key !== null);
    const least = state.threshold * Math.min(1, unitOf(group()));
    const drawn = (i, j, w) => !(Math.abs(w) < least) && (!some || state.query === i || state.key === j);
    d.grids.forEach((grid, n) => {
      const stroke = this.strokeOf(pen, d, n, width, strong && !some);
      for (let i = first; i < Math.min(end, grid.rows); ++i)
        if (!some || state.key !== null || state.query === i)
          grid.each(i, (j, w) => drawn(i, j, w) && stroke(y(i), y(j), w, strong));
      const afar = [];
      for (let j = first; (first > 0 || end < grid.rows) && j < Math.min(end, grid.columns); ++j)
        grid.byKey().each(j, (i, w) => (i < first || i >= end) && drawn(i, j, w) && afar.push([i, j, w]));
      if (afar.length > MOST_FROM_AFAR) afar.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
      for (const [i, j, w] of afar.slice(0, MOST_FROM_AFAR)) stroke(y(i), y(j), w, strong);
    });
  },

  /** How lines of the n-th head look: stroke(y of the query, y of the key, weight, strong or faint). */
  strokeOf(pen, d, n, width, all) {
    const g = group(), unit = unitOf(g), own = headColor(n), dashes = HEAD_DASHES[headPattern(n)];
    const crowded = all && d.query.count * d.grids.length > 400;
    return (from, to, w, strong) => {
      const odd = !(w >= 0), t = Number.isNaN(w) ? 0.3 : Math.min(1, Math.abs(w) / unit);
      const color = Number.isNaN(w)        ? ink().faint :
          g.signed && d.grids.length === 1 ? css(signColor(Math.sign(w))) :
                                             own;
      pen.curve(
          0, from, width, to, color, 0.6 + 3 * t,
          strong ? (crowded ? 0.12 + 0.8 * t : 0.22 + 0.75 * t) : 0.07 + 0.18 * t,
          odd ? (Number.isNaN(w) ? [1, 4] : [5, 4]) : dashes);
    };
  },

  paint(pen, d) {
    const size = rowHeight(Math.max(d.query.count, d.key.count));
    const left = Math.max(60, widest(d.query.labels.map((_, i) => tokenText(d.query, i)), 13, 220)) + 10;
    const right = Math.max(60, widest(d.key.labels.map((_, i) => tokenText(d.key, i)), 13, 220)) + 10, middle = 260;
    const font = Math.min(13, size - 3);
    d.query.labels.forEach(
        (_, i) => pen.text(
            left - 10, (i + 0.5) * size, tokenText(d.query, i),
            {size: font, align: 'right', width: left - 8, bold: state.query === i}));
    d.key.labels.forEach(
        (_, j) => pen.text(
            left + middle + 2, (j + 0.5) * size, tokenText(d.key, j),
            {size: font, width: right - 8, bold: state.key === j, color: j === d.hidden ? ink().faint : undefined}));
    for (const strong of state.query !== null || state.key !== null ? [false, true] : [true])
      this.drawLines(new ShiftedPen(pen, left - 4, 0), d, middle, 0, -Infinity, Infinity, size, strong);
    let y = size * Math.max(d.query.count, d.key.count) + 18;
    if (d.grids.length > 1)
      state.heads.slice(0, 32).forEach((n, at) => {
        pen.curve(0, y, 24, y, headColor(at), 3, 1, HEAD_DASHES[headPattern(at)]);
        pen.text(32, y, group().headName(n), {size: 11});
        y += 16;
      });
    if (group().signed) {
      pen.text(0, y, tr('dashedBelow0'), {size: 11, color: ink().faint});
      y += 16;
    }
    return {width: left + middle + right, height: y};
  },
};
