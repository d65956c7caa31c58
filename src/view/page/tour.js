// Four steps from a token's question to its answer, with the numbers of the reader's own text.
const TOUR_STEPS = 4;
const TOUR_KEYS = 5;  // so many keys are shown, those with the largest weights

const tour = {
  /** Which head and which token: those of the story, where their vectors are part of the page. */
  async prepare() {
    const g = group(), {heads, query, d} = storyView.story();
    const looks = state.query !== null && state.query < d.query.count ? state.query : query;
    const i = d.words ? g.query.words.indexOf(looks) : looks;
    const known = allHeads(g).filter(n => g.hasVectors(g.head(n).layer));
    const n = heads.length === 1 && (known.includes(heads[0]) || !known.length) ?
        heads[0] :
        clearestHead(g, known.length ? known : heads, i);
    const vectors = known.length ? await g.vectorsOf(g.head(n).layer) : null;
    return {n, i, vectors, c: vectors ? computeRow(vectors, g.head(n).head, i, g.keys) : this.stored(g, n, i)};
  },

  /** The row as far as its weights tell of it. */
  stored(g, n, i) {
    const rows = Array.from(g.grids[n].row(i), (weight, j) => ({j, weight: weight || 0, allowed: weight !== 0}));
    return {rows};
  },

  build(container, {n, i, vectors, c}) {
    const g = group(), rows = c.rows.filter(row => row.allowed).sort((a, b) => b.weight - a.weight);
    const shown = rows.slice(0, TOUR_KEYS), rest = rows.length - shown.length;
    const name = (tokens, at) => make('bdi', {class: 'token'}, tokenText(tokens, at).slice(0, 80));
    const values = {
      name: g.headName(n),
      query: name(g.query, i),
      key: name(g.key, shown[0]?.j ?? 0),
      share: storyView.share(shown[0]?.weight ?? 0),
    };
    const heading = make(
        'h2', {id: 'tour-heading'},
        tr('tourHeading', {step: state.tour, steps: TOUR_STEPS, name: tr(`tourName${state.tour}`)}));
    const text = make('p', {class: 'tour-text'}, ...this.text(g, vectors, c, values));
    const steps = make(
        'ol', {class: 'tour-steps'},
        ...Array.from(
            {length: TOUR_STEPS},
            (_, s) => make('li', {'aria-current': s + 1 === state.tour ? 'step' : null}, tr(`tourName${s + 1}`))));
    container.append(make(
        'section', {class: 'tour', id: 'tour', 'aria-labelledby': 'tour-heading'}, steps, heading, text,
        !vectors && make('p', {class: 'note'}, tr('tourNoVectors')), this.numbers({g, n, vectors, c, shown, rest}),
        this.buttons(n, i, vectors)));
    if (this.told !== state.tour) say(`${heading.textContent}. ${text.textContent}`);
    this.told = state.tour;
  },

  text(g, vectors, c, values) {
    const weightsOnly = ['tourQueryWeights', 'tourMatchWeights', 'tourSoftmaxWeights', 'tourMix'][state.tour - 1];
    if (!vectors) return trParts(weightsOnly, values);
    if (state.tour === 1) return trParts('tourQuery', {...values, size: vectors.size});
    if (state.tour === 2 && g.scale) return trParts('tourMatchScaled', {factor: number(vectors.scale)});
    if (state.tour === 2)
      return trParts('tourMatch', {divisor: `\u221a${vectors.size} = ${number(Math.sqrt(vectors.size))}`});
    if (state.tour === 3) return trParts('tourSoftmax', {largest: number(c.largest), sum: number(c.sum)});
    return trParts('tourMix', values);
  },

  /** The numbers of a step: a vector, or a line for each of the first keys. */
  numbers({g, n, vectors, c, shown, rest}) {
    const {head} = g.head(n);
    const value = x => make('td', {class: 'value'}, typeof x === 'number' ? number(x) : x);
    const weight = row => make(
        'td', {class: 'value'}, make('span', {class: 'meter', vars: {'--part': `${100 * row.weight}%`}}), ' ',
        make('b', {}, number(row.weight)));
    if (!vectors) {
      const columns = [
        null, [['tourMatched', (row, at) => value(counted(at + 1))]], [['tourWeight', weight]], [['tourWeight', weight]]
      ][state.tour - 1];
      return columns && this.table(g, shown, rest, columns);
    }
    const topK = largestOf([...shown.map(row => vectors.k(head, row.j)), c.q]);
    if (state.tour === 1) return make('p', {class: 'scroll'}, strip(c.q, 'q', topK));
    const v = row => vectors.v(head, row.j), topV = largestOf(shown.map(v));
    const columns = [
      [
        ['columnK', row => make('td', {}, strip(vectors.k(head, row.j), 'k', topK))],
        ['tourProduct', row => value(row.product)], ['tourScore', row => value(row.score)]
      ],
      [['tourScore', row => value(row.score)], ['tourExp', row => value(row.exp)], ['tourWeight', weight]],
      [
        ['tourWeight', weight], ['tourValue', row => make('td', {}, strip(v(row), 'v', topV))],
        ['tourPart', row => make('td', {}, strip(v(row), 'v', topV, row.weight))]
      ]
    ][state.tour - 2];
    const foot = state.tour === 3 ? [make('td'), value(c.sum), value(1)] :
        state.tour === 4 ?
                                    [
                                      make('td'), make('td', {class: 'value'}, tr('tourAnswer')),
                                      make('td', {}, strip(c.out, tr('tourAnswer'), topV))
                                    ] :
                                    null;
    return this.table(g, shown, rest, columns, foot);
  },

  /** `columns`: [key of the heading, cell of a row]. */
  table(g, shown, rest, columns, foot = null) {
    const head = key => make('th', {scope: 'col'}, tr(key));
    return make(
        'div', {class: 'scroll'},
        make(
            'table', {class: 'numbers'},
            make('thead', {}, make('tr', {}, head('tourToken'), ...columns.map(([key]) => head(key)))),
            make(
                'tbody', {},
                ...shown.map(
                    (row, at) => make(
                        'tr', {}, make('th', {scope: 'row'}, make('bdi', {}, tokenText(g.key, row.j).slice(0, 80))),
                        ...columns.map(([, cell]) => cell(row, at)))),
                rest > 0 &&
                    make(
                        'tr', {},
                        make('th', {scope: 'row', colSpan: columns.length + 1}, tr('tourOthers', {n: rest})))),
            foot && make('tfoot', {}, make('tr', {}, make('th', {scope: 'row'}, tr('tourSum')), ...foot))));
  },

  buttons(n, i, vectors) {
    const button = (name, label, onclick, more = {}) =>
        make('button', {type: 'button', 'data-value': name, onclick, ...more}, label);
    const last = state.tour === TOUR_STEPS, first = state.tour === 1;
    const all = () => change({view: 'inside', heads: [n], query: i, pinned: true, tour: 0});
    const end = () => this.end();
    const [label, go] = !last ? ['tourNext', () => this.go(1)] : vectors ? ['tourAll', all] : ['tourEnd', end];
    return make(
        'p', {class: 'actions'},
        // Not disabled: it may have the focus when it comes to the first step.
        button('back', tr('tourBack'), () => !first && this.go(-1), {'aria-disabled': first && 'true'}),
        button('next', tr(label), go, {class: 'primary'}), label !== 'tourEnd' && button('end', tr('tourEnd'), end));
  },

  go(by) { return change({tour: state.tour + by}); },

  end() { return change({tour: 0, pinned: false}); },
};
