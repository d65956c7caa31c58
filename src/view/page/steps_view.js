// The output, token by token: what each one looked at while it was produced, and what else it might have been.

/** The mean over heads of row `step`: of one layer, or of all. */
function stepRow(g, step, layer) {
  const out = new Float64Array(g.keys);
  const numbers =
      Array.from({length: g.layers * g.heads}, (_, n) => n).filter(n => layer < 0 || g.head(n).layer === layer);
  for (const n of numbers)
    g.grids[n].each(g.firstStep + step, (j, w) => {
      out[j] += w / numbers.length;
    });
  return out;
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
     For each produced word the words of the input that got most of its attention: [{word, sources: [{word, mass}]}].
   */
  alignment() {
    const {input, before} = this.parts();
    const g = input ?? before;
    const sources = wordsOf(g.key);
    return wordsOf(producedTokens(input)).map(word => {
      const mass = sources.map(() => 0);
      for (let i = word.from; i < word.to; ++i) {
        const row = stepRow(g, i, this.layer(g));
        sources.forEach((source, s) => {
          for (let j = source.from; j < source.to; ++j) mass[s] += row[j] / (word.to - word.from);
        });
      }
      return {
        word,
        mass,
        sources: sources.map((source, s) => ({word: source, mass: mass[s]})).sort((a, b) => b.mass - a.mass)
      };
    });
  },

  /**
     One scale for all that is shown, at all steps: the largest weight of a token, or share of a word. So one weight has
     one colour everywhere.
   */
  top() {
    const id = [state.stepLayer, state.group].join('|');
    if (this.topFor !== id) {
      const rows = stepGroups().flatMap(g => data.steps.map((_, i) => stepRow(g, i, this.layer(g))));
      this.topFor = id;
      this.largest = largestOf([...rows, ...this.alignment().map(a => a.mass)]);
    }
    return this.largest;
  },

  palette() { return stepGroups().some(g => g.signed) ? signed : plain; },

  scale() { return scaleOf(this.top(), this.palette()); },

  build(container) {
    const {input, before} = this.parts();
    const step = state.step, current = data.steps[step], top = this.top(), palette = this.palette();
    const chips = (tokens, weights) => tokens.labels.map((label, j) => {
      const w = weights[j], color = Number.isNaN(w) ? null : palette.color(palette.scale(w / top));
      return make(
          'span', {
            class: ['chip', tokens.continues(j) ? '' : 'begins', color ? '' : 'hatched'].filter(Boolean).join(' '),
            title: `${label.slice(0, 200)}: ${weightText(w)}`,
            vars: color ? {'--fill': css(color), '--on': textOn(color)} : {}
          },
          make('bdi', {}, label), make('small', {}, seen(w) ? percent(w) : '\u00a0'));
    });
    const sections = [];
    if (input) {
      const weights = stepRow(input, step, this.layer(input));
      sections.push(make(
          'section', {class: 'steppart'}, make('h3', {}, tr('stepsInput')),
          make(
              'p', {class: 'chips', dir: input.key.direction, lang: '', id: 'input-chips'},
              ...chips(input.key, weights))));
    }
    const produced = data.steps.map(
        (s, i) => make(
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
            make('bdi', {}, visible(s.token))));
    const line =
        make('p', {class: 'chips', id: 'produced', dir: producedTokens(input).direction, lang: ''}, ...produced);
    rove(line, '.produced');
    sections.push(make('section', {class: 'steppart'}, make('h3', {}, tr('stepsOutput')), line));
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
      const seen = {labels: before.key.labels.slice(0, upTo), continues: j => before.key.continues(j)};
      columns.push(make(
          'section', {class: 'steppart'}, make('h3', {}, tr('stepsBefore')),
          make(
              'p', {class: 'chips', dir: before.key.direction, lang: '', id: 'before-chips'},
              ...chips(seen, weights.slice(0, upTo)))));
    }
    sections.push(make('div', {class: 'halves'}, ...columns));
    if (current.layers.length) sections.push(lensTable(current));
    const table = make(
        'table', {class: paper.printing ? 'numbers alignment low' : 'numbers alignment', id: 'alignment'},
        make('caption', {}, tr('alignment')),
        make(
            'thead', {},
            make(
                'tr', {},
                ...['alignWord', 'alignMost', 'alignShare', 'alignThen', 'alignShare'].map(
                    name => make('th', {scope: 'col'}, tr(name))))),
        make(
            'tbody', {},
            ...this.alignment().map(
                ({word, sources}) => make(
                    'tr', {class: step >= word.from && step < word.to ? 'now' : ''},
                    make(
                        'th', {scope: 'row'},
                        make(
                            'button', {type: 'button', class: 'link', onclick: () => this.goTo(word.from)},
                            make('bdi', {}, word.text))),
                    ...sources.slice(0, 2).flatMap(
                        source =>
                            [make('td', {}, make('bdi', {}, source.word.text)),
                             make(
                                 'td', {class: 'value'},
                                 make('span', {class: 'meter', vars: {'--part': `${100 * source.mass}%`}}),
                                 make('span', {class: 'amount'}, percent(source.mass)))])))));
    const map = this.map(), box = this.mapSize(map);
    const canvas = makeCanvas(box.width, box.height, {class: 'alignmap', role: 'img', 'aria-label': tr('alignMap')});
    this.drawAlignment(new CanvasPen(canvas.getContext('2d')), map, box);
    container.append(
        ...sections,
        make('div', {class: 'halves'}, make('div', {class: 'scroll'}, table), make('div', {class: 'scroll'}, canvas)));
  },

  /** The alignment as a map: produced words down, words looked at across. */
  map() {
    const {input, before} = this.parts(), alignment = this.alignment();
    const names = words =>
        ({labels: words.map(word => visible(word.text)), continues: () => false, count: words.length});
    const sources = wordsOf((input ?? before).key);
    const now = alignment.findIndex(({word}) => state.step >= word.from && state.step < word.to);
    return {
      grid: Grid.fromRows(sources.length, alignment.map(a => a.mass), alignment.map(() => 0)),
      query: names(alignment.map(a => a.word)),
      key: names(sources),
      now: now < 0 ? null : now
    };
  },

  mapSize({query, key}) { return mapSize(query, key, paper.printing ? 320 : 900, paper.printing ? 500 : 1200); },

  drawAlignment(pen, {grid, query, key, now}, box) {
    drawGrid(pen, grid, query, key, box, {top: this.top(), palette: this.palette()});
    drawLooked(pen, grid, query, key, box, {query: now});
  },

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
    this.drawAlignment(new ShiftedPen(pen, 10, 52), map, box);
    paintColorBar(pen, 10, 66 + box.height, this.scale());
    return {width, height: 82 + box.height};
  },

  csv() {
    const rows = [['word', 'attends to', 'share']];
    for (const {word, sources} of this.alignment())
      for (const source of sources) rows.push([word.text, source.word.text, source.mass]);
    return rows;
  },
};
