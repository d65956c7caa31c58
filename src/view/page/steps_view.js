// The output, token by token: what each one looked at while it was produced, and what else it might have been.

/** The mean over heads of row `step`: of one layer, or of all. */
function stepRow(g, step, layer) {
  const out = new Float64Array(g.keys);
  const numbers = Array.from({length: g.layers * g.heads}, (_, n) => n).filter(n => layer < 0 || g.head(n).layer === layer);
  for (const n of numbers) g.grids[n].each(g.firstStep + step, (j, w) => { out[j] += w / numbers.length; });
  return out;
}

/** The produced tokens, in the words that the group of the input knows. */
function producedTokens(input) {
  return new Tokens(data.steps.map(step => step.token), input ? input.queryWords.slice(input.firstStep, input.firstStep + data.steps.length) : [], data.steps.length);
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

const stepsView = {
  /** The attention over the input, and that over what was produced before; either may be missing. */
  parts() {
    const before = stepGroups().find(g => g.stepKeys === 'output');
    const input = stepGroups().find(g => g.stepKeys === 'input');
    return {input, before};
  },

  layer(g) { return Math.min(state.stepLayer, g.layers - 1); },

  /** For each produced word the words of the input that got most of its attention: [{word, sources: [{word, mass}]}]. */
  alignment() {
    const {input, before} = this.parts();
    const g = input ?? before;
    const sources = wordsOf(g.key);
    return wordsOf(producedTokens(input)).map(word => {
      const mass = sources.map(() => 0);
      for (let i = word.from; i < word.to; ++i) {
        const row = stepRow(g, i, this.layer(g));
        sources.forEach((source, s) => { for (let j = source.from; j < source.to; ++j) mass[s] += row[j] / (word.to - word.from); });
      }
      return {word, mass, sources: sources.map((source, s) => ({word: source, mass: mass[s]})).sort((a, b) => b.mass - a.mass)};
    });
  },

  build(container) {
    const {input, before} = this.parts();
    const step = state.step, current = data.steps[step];
    const chips = (tokens, weights) => {
      const top = Math.max(1e-9, ...weights);
      return tokens.labels.map((label, j) => {
        const color = mapColor(0.75 * weights[j] / top);
        return make('span', {class: 'chip ' + (tokens.continues(j) ? '' : 'begins'), title: `${label.slice(0, 200)}: ${number(weights[j])}`, vars: {'--fill': css(color), '--on': textOn(color)}},
          make('bdi', {}, label), make('small', {}, weights[j] >= 0.005 ? percent(weights[j]) : '\u00a0'));
      });
    };
    const sections = [];
    if (input) {
      const weights = stepRow(input, step, this.layer(input));
      sections.push(make('section', {class: 'steppart'}, make('h3', {}, 'The input, coloured by what this step looks at'), make('p', {class: 'chips', dir: 'auto', id: 'input-chips'}, ...chips(input.key, weights))));
    }
    const candidates = make('ol', {class: 'bars candidates'}, ...current.candidates.map(([token, p]) => make('li', {class: token === current.token ? 'taken' : ''},
      make('bdi', {class: 'token'}, visible(token)), make('span', {class: 'stack'}, make('i', {vars: {'--part': `${100 * p}%`, '--color': headColor(0)}})), make('span', {class: 'amount'}, percent(p)))));
    const produced = data.steps.map((s, i) => make('button', {
      type: 'button', class: 'chip produced ' + (i === step ? 'now' : i > step ? 'later' : ''), 'data-token': String(i), 'aria-current': i === step ? 'step' : null, tabIndex: i === step ? 0 : -1, onclick: () => change({step: i})}, make('bdi', {}, visible(s.token))));
    const line = make('p', {class: 'chips', id: 'produced', dir: 'auto'}, ...produced);
    rove(line, '.produced');
    sections.push(make('section', {class: 'steppart'}, make('h3', {}, 'The output so far; choose a token'), line));
    const columns = [make('section', {class: 'steppart'}, make('h3', {}, `Step ${step + 1} of ${data.steps.length}: `, make('bdi', {class: 'token'}, visible(current.token))), current.candidates.length ? candidates : make('p', {class: 'faint'}, 'no probabilities are part of this page'),
      current.candidates.length ? make('p', {class: 'faint'}, 'the likeliest tokens of this step') : '')];
    if (before) {
      const weights = stepRow(before, step, this.layer(before));
      const upTo = before.firstStep + step + 1;
      const seen = {labels: before.key.labels.slice(0, upTo), continues: j => before.key.continues(j)};
      columns.push(make('section', {class: 'steppart'}, make('h3', {}, 'What came before, coloured by what this step looks at'), make('p', {class: 'chips', dir: 'auto', id: 'before-chips'}, ...chips(seen, weights.slice(0, upTo)))));
    }
    sections.push(make('div', {class: 'halves'}, ...columns));
    const table = make('table', {class: 'numbers alignment', id: 'alignment'}, make('caption', {}, 'Each produced word, and the words that got most of its attention'),
      make('thead', {}, make('tr', {}, ...['word', 'looks most at', 'share', 'then at', 'share'].map(name => make('th', {scope: 'col'}, name)))),
      make('tbody', {}, ...this.alignment().map(({word, sources}) => make('tr', {class: step >= word.from && step < word.to ? 'now' : ''},
        make('th', {scope: 'row'}, make('button', {type: 'button', class: 'link', onclick: () => change({step: word.from})}, make('bdi', {}, word.text))),
        ...sources.slice(0, 2).flatMap(source => [make('td', {}, make('bdi', {}, source.word.text)), make('td', {class: 'value'}, make('span', {class: 'meter', vars: {'--part': `${100 * source.mass}%`}}), make('span', {class: 'amount'}, percent(source.mass)))])))));
    const box = this.mapSize();
    const canvas = makeCanvas(box.width, box.height, {class: 'alignmap', role: 'img', 'aria-label': 'The same as a map: produced words down, words looked at across'});
    this.drawAlignment(new CanvasPen(canvas.getContext('2d')), box, 0);
    container.append(...sections, make('div', {class: 'halves'}, make('div', {class: 'scroll'}, table), make('div', {class: 'scroll'}, canvas)));
  },

  mapSize() {
    const {input, before} = this.parts(), alignment = this.alignment();
    const sources = wordsOf((input ?? before).key), cell = Math.max(8, Math.min(34, 900 / Math.max(sources.length, alignment.length)));
    const left = Math.max(60, widest(alignment.map(a => a.word.text), 12, 160)) + 20, head = Math.max(40, widest(sources.map(s => s.text), 12, 120)) + 12;
    return {alignment, sources, cell, left, head, width: Math.max(320, left + cell * sources.length + 20), height: head + cell * alignment.length + 14};
  },

  drawAlignment(pen, {alignment, sources, cell, left, head}, y) {
    const y0 = y + head, top = largestOf(alignment.map(a => a.mass));
    const every = Math.max(1, Math.ceil(12 / cell));
    sources.forEach((source, s) => {
      if (s % every === 0) pen.text(left + (s + 0.5) * cell, y0 - 6, source.text, {size: Math.min(12, cell), turn: -Math.PI / 2, width: head - 10});
    });
    alignment.forEach(({word, mass}, a) => {
      const now = state.step >= word.from && state.step < word.to;
      if (a % every === 0) pen.text(left - 8, y0 + (a + 0.5) * cell, word.text, {size: Math.min(12, cell), align: 'right', width: left - 14, bold: now});
      mass.forEach((m, s) => {
        const color = mapColor(m / top);
        pen.rect(left + s * cell, y0 + a * cell, cell, cell, css(color));
        if (m >= 0.005 && cell >= 24) pen.text(left + (s + 0.5) * cell, y0 + (a + 0.5) * cell, m.toFixed(2).replace(/^0/, ''), {size: 10, align: 'center', color: textOn(color)});
      });
      if (now) pen.frame(left, y0 + a * cell, cell * sources.length, cell, ink().strong);
    });
    pen.frame(left, y0, cell * sources.length, cell * alignment.length, ink().line);
  },

  tools() {
    const {input, before} = this.parts();
    const g = input ?? before;
    const last = data.steps.length - 1;
    return [
      make('label', {class: 'choice'}, make('span', {}, 'Step'), make('input', {type: 'range', id: 'step', min: '0', max: String(last), step: '1', value: String(state.step), 'aria-valuetext': `${state.step + 1}: ${data.steps[state.step].token.slice(0, 60)}`, oninput: event => change({step: Number(event.target.value)})}), make('output', {for: 'step'}, `${state.step + 1} / ${last + 1}`)),
      make('button', {type: 'button', 'data-value': 'play', 'aria-pressed': String(Boolean(this.timer)), onclick: () => this.play()}, this.timer ? 'stop' : 'play'),
      g.layers > 1 && choice('Heads', [[-1, 'mean of all'], ...Array.from({length: g.layers}, (_, l) => [l, `mean of layer ${l + 1}`])], state.stepLayer, layer => change({stepLayer: Number(layer)})),
    ].filter(Boolean);
  },

  play() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = null;
      change({});
      return;
    }
    const last = data.steps.length - 1;
    this.timer = setInterval(() => {
      if (state.view !== 'steps' || state.step >= last) {
        clearInterval(this.timer);
        this.timer = null;
      }
      change(state.view === 'steps' ? {step: Math.min(last, state.step + 1)} : {});
    }, 900);
    change({step: state.step >= last ? 0 : state.step});
  },

  paint(pen) {
    const box = this.mapSize();
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: box.width - 20});
    pen.text(10, 38, 'Alignment: the share of each produced word\u2019s attention', {size: 12, color: ink().faint, width: box.width - 20});
    this.drawAlignment(pen, box, 52);
    return {width: box.width, height: 52 + box.height};
  },

  csv() {
    const rows = [['word', 'attends to', 'share']];
    for (const {word, sources} of this.alignment()) for (const source of sources) rows.push([word.text, source.word.text, source.mass]);
    return rows;
  },
};
