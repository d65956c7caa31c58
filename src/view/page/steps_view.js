// The output, token by token: what each one looked at while it was produced, and what else it might have been.

/** The mean over heads, of one layer or of all, with a row for each step. */
function stepGrid(g, layer) {
  g.stepGrids ??= new Map();
  if (!g.stepGrids.has(layer)) {
    const grids = g.grids.filter((_, n) => layer < 0 || g.head(n).layer === layer), steps = data.steps.length;
    g.stepGrids.set(layer, Grid.filled(steps, g.keys, new Float32Array(steps), (i, add) => {
      for (const grid of grids) grid.each(g.firstStep + i, (j, w) => add(j, w / grids.length));
    }));
  }
  return g.stepGrids.get(layer);
}

const stepRow = (g, step, layer) => stepGrid(g, layer).row(step);

/** The places of the two largest weights of a row, the larger one first. */
function twoLargest(row) {
  const size = i => (i < 0 || Number.isNaN(row[i]) ? -Infinity : row[i]);
  let [first, second] = [-1, -1];
  for (let i = 0; i < row.length; ++i)
    if (first < 0 || size(i) > size(first))
      [first, second] = [i, first];
    else if (second < 0 || size(i) > size(second))
      second = i;
  return [first, second].filter(i => i >= 0);
}

/** The produced tokens, in the words that the group of the input knows. */
function producedTokens(input) {
  return new Tokens(
      data.steps.map(step => step.token),
      input ? input.queryWords.slice(input.firstStep, input.firstStep + data.steps.length) : [], data.steps.length);
}

/** Spans of one text: [{text, from, to}] for each word, in tokens. */
function wordsOf(tokens) {
  const out = [];
  tokens.labels.forEach((label, i) => {
    if (tokens.continues(i)) {
      out.at(-1).text += label;
      out.at(-1).to = i + 1;
    } else {
      out.push({text: label, from: i, to: i + 1});
    }
  });
  return out;
}

/** The likeliest tokens of a step, and which of them came. */
function candidateBars({token: taken, candidates}) {
  return make(
      'ol', {class: 'bars candidates'},
      ...candidates.map(
          ([token, p]) => make(
              'li', {class: token === taken ? 'taken' : ''}, make('bdi', {class: 'token'}, visible(token)),
              make('span', {class: 'stack'}, make('i', {vars: {'--part': `${100 * p}%`, '--color': headColor(0)}})),
              make('span', {class: 'amount'}, percent(p)))));
}

/** What each layer would have written at a step, the last layer first: its likeliest tokens. */
function lensTable({token: taken, layers}) {
  const shown = 3;
  const cell = ([token, p]) => make(
      'td', {class: token === taken ? 'taken' : ''}, make('bdi', {class: 'token'}, visible(token)),
      make('span', {class: 'meter', vars: {'--part': `${100 * p}%`}}), make('span', {class: 'amount'}, percent(p)));
  const row = (candidates, layer) => make(
      'tr', {}, make('th', {scope: 'row'}, tr('layerHeading', {layer: layer + 1})),
      ...candidates.slice(0, shown).map(cell));
  return make(
      'section', {class: 'steppart'}, make('h3', {}, tr('lensHeading')),
      make(
          'div', {class: 'scroll'},
          make('table', {class: 'numbers lens', id: 'lens'}, make('tbody', {}, ...layers.map(row).reverse()))),
      make('p', {class: 'faint'}, tr('lensWhat')));
}

const stepsView = {
  /** The attention over the input, and that over what was produced before; either may be missing. */
  parts() {
    const before = stepGroups().find(g => g.stepKeys === 'output');
    const input = stepGroups().find(g => g.stepKeys === 'input');
    return {input, before};
  },

  layer(g) { return Math.min(state.stepLayer, g.layers - 1); },

  /**
     The share of each produced word's attention that each word looked at got: {grid, words, sources}, words as
     wordsOf() has them.
   */
  alignment() {
    const {input, before} = this.parts(), g = input ?? before, layer = this.layer(g);
    const produced = producedTokens(input);
    g.alignments ??= new Map();
    if (!g.alignments.has(layer)) g.alignments.set(layer, mergeWords(stepGrid(g, layer), produced, g.key));
    return {grid: g.alignments.get(layer), words: wordsOf(produced), sources: wordsOf(g.key)};
  },

  /**
     One scale for all that is shown, at all steps: the largest weight of a token, or share of a word. So one weight has
     one colour everywhere.
   */
  top() {
    const grids = [...stepGroups().map(g => stepGrid(g, this.layer(g))), this.alignment().grid];
    return Math.max(1e-9, ...grids.map(grid => grid.largest()));
  },

  palette() { return stepGroups().some(g => g.signed) ? signed : plain; },

  scale() { return scaleOf(this.top(), this.palette()); },

  build(container) {
    const {input, before} = this.parts();
    const step = state.step, current = data.steps[step], top = this.top(), palette = this.palette();
    const chip = (tokens, weights, j) => {
      const label = tokens.labels[j], w = weights[j];
      const color = Number.isNaN(w) ? null : palette.color(palette.scale(w / top));
      return make(
          'span', {
            class: ['chip', tokens.continues(j) ? '' : 'begins', color ? '' : 'hatched'].filter(Boolean).join(' '),
            title: `${label.slice(0, 200)}: ${weightText(w)}`,
            vars: color ? {'--fill': css(color), '--on': textOn(color)} : {}
          },
          make('bdi', {}, label), make('small', {}, seen(w) ? percent(w) : '\u00a0'));
    };
    const chips = (id, tokens, weights) => {
      const few = largestPlaces(weights);
      return [
        make(
            'p', {class: 'chips', dir: tokens.direction, lang: '', id},
            ...withGaps(few.map(j => chip(tokens, weights, j)), few)),
        leftOut(few, weights.length)
      ];
    };
    const sections = [];
    if (input) {
      const weights = stepRow(input, step, this.layer(input));
      sections.push(make(
          'section', {class: 'steppart'}, make('h3', {}, tr('stepsInput')),
          ...chips('input-chips', input.key, weights)));
    }
    const near = rangeAround(step, data.steps.length);
    const produced = data.steps.slice(...near).map((s, n) => {
      const i = near[0] + n;
      return make(
          'button', {
            type: 'button',
            class: 'chip produced ' +
                (i === step   ? 'now' :
                     i > step ? 'later' :
                                ''),
            'data-token': String(i),
            'aria-current': i === step ? 'step' : null,
            tabIndex: i === step ? 0 : -1,
            onclick: () => this.goTo(i)
          },
          make('bdi', {}, visible(s.token)));
    });
    const line =
        make('p', {class: 'chips', id: 'produced', dir: producedTokens(input).direction, lang: ''}, ...produced);
    rove(line, '.produced');
    sections.push(make(
        'section', {class: 'steppart'}, make('h3', {}, tr('stepsOutput')), line, leftOutOf(near, data.steps.length)));
    const columns = [make(
        'section', {class: 'steppart'}, make('h3', {}, ...trParts('stepOf', {
                                               step: step + 1,
                                               steps: data.steps.length,
                                               token: make('bdi', {class: 'token'}, visible(current.token))
                                             })),
        current.candidates.length ? candidateBars(current) : make('p', {class: 'faint'}, tr('noProbabilities')),
        current.candidates.length ? make('p', {class: 'faint'}, tr('likeliest')) : '')];
    if (before) {
      const weights = stepRow(before, step, this.layer(before));
      const upTo = before.firstStep + step + 1;
      columns.push(make(
          'section', {class: 'steppart'}, make('h3', {}, tr('stepsBefore')),
          ...chips('before-chips', before.key, weights.slice(0, upTo))));
    }
    sections.push(make('div', {class: 'halves'}, ...columns));
    if (current.layers.length) sections.push(lensTable(current));
    this.place = make('div');
    container.append(...sections, make('div', {class: 'halves'}, make('div', {}, ...this.table()), this.place));
  },

  /** Each produced word with the words that it looks most at. */
  table() {
    const {grid, words, sources} = this.alignment(), now = this.wordNow(words);
    const near = rangeAround(now ?? 0, words.length);
    const looked = (row, s) =>
        [make('td', {}, make('bdi', {}, sources[s].text)),
         make(
             'td', {class: 'value'}, make('span', {class: 'meter', vars: {'--part': `${100 * row[s]}%`}}),
             make('span', {class: 'amount'}, percent(row[s])))];
    const line = (word, n) => {
      const row = grid.row(near[0] + n);
      return make(
          'tr', {class: near[0] + n === now ? 'now' : ''},
          make(
              'th', {scope: 'row'},
              make(
                  'button', {type: 'button', class: 'link', onclick: () => this.goTo(word.from)},
                  make('bdi', {}, word.text))),
          ...twoLargest(row).flatMap(s => looked(row, s)));
    };
    const table = make(
        'table', {class: paper.printing ? 'numbers alignment low' : 'numbers alignment', id: 'alignment'},
        make('caption', {}, tr('alignment')),
        make(
            'thead', {},
            make(
                'tr', {},
                ...['alignWord', 'alignMost', 'alignShare', 'alignThen', 'alignShare'].map(
                    name => make('th', {scope: 'col'}, tr(name))))),
        make('tbody', {}, ...words.slice(...near).map(line)));
    return [make('div', {class: 'scroll'}, table), leftOutOf(near, words.length)];
  },

  /** The word that the step is in, or null. */
  wordNow(words) {
    const now = words.findIndex(word => state.step >= word.from && state.step < word.to);
    return now < 0 ? null : now;
  },

  /** The alignment as a map: produced words down, words looked at across. */
  map() {
    const {grid, words, sources} = this.alignment();
    const names = list => ({labels: list.map(word => visible(word.text)), continues: () => false, count: list.length});
    return {grid, query: names(words), key: names(sources), now: this.wordNow(words)};
  },

  /** The map, as soon as the room for it is known. */
  ready() {
    const {grid, query, key, now} = this.map(), {input, before} = this.parts();
    const place = (input ?? before).alignmentPlace ??= {};
    const space = paper.printing ? 320 : Math.min(900, Math.max(240, this.place.clientWidth));
    const map = new MapCanvas(
        grid, query, key, mapSize(query, key, space, paper.printing ? 500 : 1200), this.options(),
        {id: 'alignmap', 'aria-label': tr('alignMap')}, {room: {width: space, height: 480}, place});
    let at = {query: now, key: null};
    map.element.addEventListener('keydown', event => {
      const to = map.moved(event, at);
      if (!to) return;
      map.show(at = to);
      say(map.sentence(to));
    });
    map.showIn(this.place);
    map.show(at);
  },

  options() { return {top: this.top(), palette: this.palette()}; },

  tools() {
    const {input, before} = this.parts();
    const g = input ?? before;
    this.slider = make('input', {
      type: 'range',
      id: 'step',
      min: '0',
      max: String(data.steps.length - 1),
      step: '1',
      oninput: event => {
        this.stop();
        this.goTo(Number(event.target.value));
      }
    });
    this.count = make('output', {'for': 'step'});
    this.playButton = make('button', {type: 'button', 'data-value': 'play', onclick: () => this.play()});
    this.updateTools();
    return [
      make('label', {class: 'choice'}, make('span', {}, tr('step')), this.slider, this.count),
      this.playButton,
      g.layers > 1 &&
          choice(
              tr('toolHeads'),
              [
                [-1, tr('meanOfAll')], ...Array.from({length: g.layers}, (_, l) => [l, tr('meanOfOne', {layer: l + 1})])
              ],
              state.stepLayer, layer => change({stepLayer: Number(layer)})),
      liftTool(),
      colorBar(this.scale()),
    ].filter(Boolean);
  },

  /** The tools of another step: they stay in their places, for one of them may be held. */
  updateTools() {
    this.slider.value = String(state.step);
    this.slider.setAttribute('aria-valuetext', `${state.step + 1}: ${data.steps[state.step].token.slice(0, 60)}`);
    this.count.textContent = `${state.step + 1} / ${data.steps.length}`;
    this.playButton.textContent = tr(this.timer ? 'stop' : 'play');
    this.playButton.setAttribute('aria-pressed', String(Boolean(this.timer)));
  },

  async goTo(step) {
    await change({step}, {tools: false});
    const {input, before} = this.parts(), g = input ?? before;
    say(sharesInWords(visible(data.steps[state.step].token), g.key.labels, stepRow(g, state.step, this.layer(g))));
  },

  stop() {
    clearInterval(this.timer);
    this.timer = null;
  },

  play() {
    if (this.timer) {
      this.stop();
      this.updateTools();
      return;
    }
    const last = data.steps.length - 1;
    this.timer = setInterval(() => {
      if (state.view !== 'steps') return this.stop();
      if (state.step + 1 >= last) this.stop();
      this.goTo(Math.min(last, state.step + 1));
    }, 900);
    this.goTo(state.step >= last ? 0 : state.step);
  },

  paint(pen) {
    const map = this.map(), box = mapSize(map.query, map.key, 1000, 1400), width = Math.max(420, box.width + 20);
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(10, 38, tr('fileAlignment'), {size: 12, color: ink().faint, width: width - 20});
    const shifted = new ShiftedPen(pen, 10, 52);
    drawGrid(shifted, map.grid, map.query, map.key, box, this.options());
    drawLooked(shifted, map.grid, map.query, map.key, box, {query: map.now});
    paintColorBar(pen, 10, 66 + box.height, this.scale());
    return {width, height: 82 + box.height};
  },

  csv() {
    const rows = [['word', 'attends to', 'share']];
    const {grid, words, sources} = this.alignment();
    words.forEach((word, i) => {
      const looked = [];
      grid.each(i, (s, mass) => looked.push([word.text, sources[s].text, mass]));
      rows.push(...looked.sort((a, b) => b[2] - a[2]));
    });
    return rows;
  },
};
