// What the page opens on: one head, or the mean of all, with one word that looks, and a sentence that says what is
// seen.

// Words of grammar, in the languages of the page: a reader learns more from a noun that looks at its translation.
const GRAMMAR = new Set(
    ('a an the of to in on at by for from with and or but not no is are was were be been it its he she they we you ' +
     'i this that these those his her their my your as if so do does did ' +
     'el la los las un una unos unas lo de del al en y e o u que se le les me te nos su sus mi mis tu tus con por ' +
     'para sin es son era ser como si pero muy esta este esto ese esa')
        .split(' '));

/** Signs, tokens that only models write, and words of grammar tell little. */
function isContent(label) {
  const word = label.replace(/^[\u2581\u0120]/, '').trim().toLowerCase();
  return !isSpecial(word) && /[\p{L}\p{N}]/u.test(word) && !GRAMMAR.has(word);
}

/** For each token whether it is a word of content; where none is, all are. */
function contentOf(tokens) {
  const content = tokens.raw.map(isContent);
  return content.includes(true) ? content : content.fill(true);
}

/** The largest weight of row i: {key, weight}. */
function topOf(grid, i) {
  let key = -1, weight = 0;
  grid.each(i, (j, w) => {
    if (w > weight) [key, weight] = [j, w];
  });
  return {key, weight};
}

/** How clearly row i looks at another word of content: its largest weight, or 0 where that is on something else. */
function clearness(grid, i, content, self) {
  const {key, weight} = topOf(grid, i);
  return key >= 0 && content[key] && !(self && key === i) ? weight : 0;
}

/** The index of the largest number; the first of several. */
const largestAt = list => list.reduce((best, x, i) => (x > list[best] ? i : best), 0);

/** Of the heads `among`, the one whose words of content look most clearly; or row `only` alone. */
function clearestHead(g, among, only = null) {
  const queries = contentOf(g.query), keys = contentOf(g.key);
  return among[largestAt(among.map(n => {
    let sum = 0;
    for (let i = 0; i < g.queries; ++i)
      if (only === null ? queries[i] : i === only) sum += clearness(g.grids[n], i, keys, g.self);
    return sum;
  }))];
}

function clearestRow(g, {mean, query, key}) {
  const queries = contentOf(query), keys = contentOf(key);
  return largestAt(query.raw.map((_, i) => (queries[i] ? clearness(mean, i, keys, g.self) : 0)));
}

const allHeads = g => Array.from({length: g.layers * g.heads}, (_, n) => n);

/** Of a picture: the head and the token with the largest weight on a patch; the class token where there is one. */
function clearestOverPicture(g) {
  const tokens = inFront(g) > 0 ? [0] : Array.from({length: g.queries}, (_, i) => i);
  const found = allHeads(g).flatMap(n => tokens.map(i => ({n, i, top: patchTop(g, g.grids[n].row(i))})));
  return found[largestAt(found.map(({top}) => top))];
}

function storyKind(g) {
  if (g.picture) return 'picture';
  if (g.stepKeys === 'input' && data.steps.length) return 'translation';
  if (stepGroups().includes(g) && stepGroups().every(other => other.stepKeys === 'output')) return 'next';
  return g.self && g.query.named ? 'text' : 'weights';
}

/** The group that the page opens on. */
function storyGroup() { return Math.max(0, groups.findIndex(g => storyKind(g) === 'translation')); }

const SINK_FROM = 0.2;  // of all attention: what is left out of the mean of a language model's heads

const storyView = {
  /** What is told of the group: {kind, heads, query, sinkless, d}, where d is as derived() says. */
  story() { return group().story ??= this.choose(group()); },

  choose(g) {
    const kind = storyKind(g);
    const picture = kind === 'picture' && clearestOverPicture(g);
    const heads = kind === 'next' ? allHeads(g) : [picture ? picture.n : clearestHead(g, allHeads(g))];
    const sinkless = kind === 'next' && g.keys > 2 && g.sink.mass >= SINK_FROM;
    const d = shapedOf(g, [meanGrid(heads.map(n => g.grids[n]))], kind !== 'picture', sinkless);
    const last = g.firstStep + data.steps.length - 1;
    const query = picture ? picture.i : kind === 'next' ? (d.words ? g.query.words[last] : last) : clearestRow(g, d);
    return {kind, heads, sinkless, d, query};
  },

  derived() { return this.story().d; },

  prepare() { return state.tour ? tour.prepare() : null; },

  build(container, prepared) {
    if (state.tour) {
      tour.build(container, prepared);
    } else {
      tour.told = 0;
      this.tell(container);
    }
  },

  /** The token told of: the one looked at, or the story's own. */
  limitFocus() {
    const {d, query} = this.story();
    if (state.query >= d.query.count) state.query = null;
    if (state.key >= d.key.count) state.key = null;
    if (state.query === null && state.key === null) state.query = query;
  },

  tell(container) {
    const {kind, d} = this.story();
    this.limitFocus();
    this.lead = make('h2', {class: 'lead', id: 'story-sentence'});
    this.more = make('p', {class: 'faint'});
    const stage = make('div', {class: 'stage'});
    if (kind === 'picture')
      stage.append(this.picture());
    else
      this.lines(stage, d);
    container.append(
        this.lead, this.more,
        make(
            'div', {class: 'storyview'}, stage,
            make('aside', {class: 'detail', 'aria-label': tr('storyRegion')}, ...this.explained(), this.actions())));
  },

  /** The words, the lines between them and what a line is. */
  lines(stage, d) {
    const {kind} = this.story();
    const [left, right] = kind === 'translation' ? ['storyColumnsTranslation', 'storyColumnsSentence'] :
                                                   ['storyColumnsLooks', 'storyColumnsLookedAt'];
    stage.append(
        make('div', {class: 'columns'}, make('span', {}, ...trParts(left)), make('span', {}, ...trParts(right))));
    linesDisplay.build(stage, d);
    const sample = t => {
      const canvas = makeCanvas(40, 12, {'aria-hidden': 'true'});
      new CanvasPen(canvas.getContext('2d')).curve(0, 6, 40, 6, headColor(0), 0.6 + 3 * t, 0.22 + 0.75 * t);
      return make('span', {class: 'sample'}, canvas, this.share(t * unitOf(group())));
    };
    stage.append(make('p', {class: 'legend', id: 'legend'}, tr('storyLegend'), ...[0.1, 0.5, 1].map(sample)));
  },

  picture() {
    const g = group(), {d, query} = this.story(), row = d.mean.row(query), top = patchTop(g, row), w = 360;
    const h = w * g.picture.height / g.picture.width;
    const canvas = (name, weights) => {
      const out = makeCanvas(w, h, {class: 'patches', role: 'img', 'aria-label': name});
      const pen = new CanvasPen(out.getContext('2d'));
      pen.image(pictureWith(g, weights, top, 512), 0, 0, w, h);
      if (!weights && query >= inFront(g)) pictureDisplay.frame(pen, g, query - inFront(g), w, h);
      return out;
    };
    const over = tr('whatLooksAt', {token: d.query.labels[query]});
    return make(
        'div', {class: 'pictures'},
        make('figure', {}, make('figcaption', {}, tr('pictureAlone')), canvas(tr('pictureAlone'), null)),
        make('figure', {}, make('figcaption', {}, over), canvas(over, row), colorBar(scaleOf(top, g.palette))));
  },

  /** What is seen, for somebody who sees it for the first time. */
  explained() {
    const g = group(), {kind, heads, sinkless} = this.story();
    const all = tr('headCount', {n: g.layers * g.heads});
    const parts = [
      {
        translation: 'storyTranslation',
        text: 'storyText',
        next: 'storyNext',
        picture: 'storyPicture',
        weights: 'storyWeights'
      }[kind]
    ].map(key => make('p', {}, ...trParts(key)));
    if (sinkless)
      parts.push(make('p', {id: 'story-sink'}, ...trParts('storySink', {
                        token: make('bdi', {class: 'token'}, g.key.labels[g.sink.key].slice(0, 80)),
                        share: percent(g.sink.mass)
                      })));
    const which = g.layers * g.heads === 1 ? trParts('storyOneHead') :
        heads.length > 1                   ? trParts('storyMean', {count: all}) :
                                             trParts('storyHead', {name: g.headName(heads[0]), count: all});
    parts.push(make('p', {class: 'faint'}, ...which));
    if (kind === 'next') parts.push(make('h3', {}, tr('storyCandidates')), this.candidates());
    if (kind !== 'picture') parts.push(make('p', {class: 'hint'}, tr('storyTry')));
    return parts;
  },

  candidates() {
    const last = data.steps.at(-1);
    return last.candidates.length ? candidateBars(last) : make('p', {class: 'faint'}, tr('storyCandidatesNone'));
  },

  actions() {
    const {heads, d} = this.story();
    const open = {view: 'head', heads, words: d.words, hideSink: d.hidden >= 0};
    return make(
        'p', {class: 'actions'},
        // The same name as the tour's next button: the focus goes on from here to there.
        make(
            'button',
            {type: 'button', class: 'primary', 'data-value': 'next', onclick: () => change({tour: 1, pinned: true})},
            tr('storyTour')),
        heads.length === 1 &&
            make(
                'button', {
                  type: 'button',
                  class: 'link',
                  'data-value': 'open',
                  onclick: () => change({...open, query: state.query, key: state.key, pinned: true})
                },
                tr('storyOpen')));
  },

  ready() {
    if (state.tour) return;
    const lines = this.story().kind !== 'picture';
    if (lines) linesDisplay.ready();
    this.refresh();
    if (lines) linesDisplay.centre(state.query ?? state.key);
  },

  /** What changes when another token is looked at. */
  refresh() {
    const {kind, d} = this.story();
    this.limitFocus();
    if (kind !== 'picture') linesDisplay.refresh(d);
    const [first, then] = this.sentence();
    this.lead.replaceChildren(...first);
    this.more.replaceChildren(...(then.length ? trParts('storyThen', {list: make('span', {}, ...then)}) : ['\u00a0']));
  },

  /** A share of a row that sums to 1, else the weight itself. */
  share(w) { return group().signed || Object.keys(group().notes).length ? weightText(w) : percent(w); },

  /** [what is seen, what else], each as parts of an element. */
  sentence() {
    const {d} = this.story(), side = state.query !== null ? 'query' : 'key', other = side === 'query' ? 'key' : 'query';
    const name = (tokens, i) => make('bdi', {class: 'token'}, tokens.labels[i].slice(0, 80));
    const weights = side === 'query' ? d.mean.row(state.query) : d.mean.column(state.key);
    const order = [...weights.keys()]
                      .filter(i => seen(weights[i]) && !Number.isNaN(weights[i]))
                      .sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]));
    const token = name(d[side], state[side]);
    if (!order.length) return [trParts('storyNothing', {query: token}), []];
    const key = side === 'query' ? 'storyLooks' : 'storyLookedAt';
    const first =
        trParts(key, {[side]: token, [other]: name(d[other], order[0]), share: this.share(weights[order[0]])});
    const then = order.slice(1, 4).flatMap(
        (i,
         n) => [n ? ' \u00b7 ' : '', make('bdi', {}, d[other].labels[i].slice(0, 80)), ` ${this.share(weights[i])}`]);
    return [first, then];
  },

  tools() { return []; },

  paint(pen) {
    const g = group(), {kind, d, query} = this.story(), shifted = new ShiftedPen(pen, 10, 56);
    this.limitFocus();
    const says = this.sentence()[0].map(part => part.textContent ?? part).join('');
    let width = 0, height = 0;
    if (kind === 'picture') {
      const row = d.mean.row(query), w = 320, h = w * g.picture.height / g.picture.width, top = patchTop(g, row);
      shifted.image(pictureWith(g, null, 1, 640), 0, 0, w, h);
      shifted.image(pictureWith(g, row, top, 640), w + 20, 0, w, h);
      paintColorBar(shifted, w + 20, h + 16, scaleOf(top, g.palette));
      [width, height] = [2 * w + 20, h + 28];
    } else {
      ({width, height} = linesDisplay.paint(shifted, d));
    }
    const whole = Math.max(320, width + 20);
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: whole - 20});
    pen.text(10, 38, says, {size: 12, color: ink().faint, width: whole - 20});
    return {width: whole, height: height + 64};
  },

  csv() {
    const {d} = this.story(), rows = [['query', 'query token', 'key', 'key token', 'weight']];
    for (let i = 0; i < d.mean.rows; ++i)
      d.mean.each(i, (j, w) => rows.push([i + 1, d.query.raw[i], j + 1, d.key.raw[j], w]));
    return rows;
  },
};
