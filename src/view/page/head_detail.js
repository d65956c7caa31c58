// Beside the heads: the row, the column or the cell that is looked at, in words and numbers.
function headDetail(d) {
  const parts = [];
  const whole = label => make('bdi', {class: 'whole'}, label);
  if (state.query !== null && state.key !== null) {
    parts.push(
        make('h2', {}, whole(d.query.labels[state.query]), ' \u2192 ', whole(d.key.labels[state.key])),
        make('p', {class: 'big'}, weightText(d.mean.at(state.query, state.key))),
        make(
            'p', {class: 'faint'},
            tr('queryAndKey', {query: state.query + 1, key: state.key + 1, heads: headsName()})));
    parts.push(...weightBars(d, 'query', state.query, tr('attends')));
  } else if (state.query !== null) {
    parts.push(
        make('h2', {}, whole(d.query.labels[state.query])),
        make('p', {class: 'faint'}, ...trParts('queryOf', {query: state.query + 1, count: d.query.count})),
        ...weightBars(d, 'query', state.query, tr('attends')), ...rowRemarks(d, state.query));
  } else if (state.key !== null) {
    parts.push(
        make('h2', {}, whole(d.key.labels[state.key])),
        make('p', {class: 'faint'}, ...trParts('keyOf', {key: state.key + 1, count: d.key.count})),
        ...weightBars(d, 'key', state.key, tr('attendedBy')));
  } else {
    parts.push(make('p', {class: 'hint'}, tr(matchMedia('(hover: none)').matches ? 'hintTapToken' : 'hintPointToken')));
    if (state.heads.length === 1 && group().shares) {
      const changed = d.words || d.hidden >= 0;
      parts.push(
          make('h3', {}, group().headName(state.heads[0])),
          figureList(changed ? figuresOf(d.mean) : group().figures(state.heads[0]), d.query, d.key),
          changed && make('p', {class: 'faint'}, tr('countedFromShown')));
    }
  }
  if (state.pinned)
    parts.push(make(
        'p', {},
        make(
            'button', {type: 'button', onclick: () => change({query: null, key: null, pinned: false})},
            tr('release'))));
  const g = group(), head = g.head(state.heads[0]);
  if (g.hasVectors(head.layer) && state.query !== null && !d.words)
    parts.push(make(
        'p', {},
        make('button', {type: 'button', onclick: () => change({view: 'inside', pinned: true})}, tr('howComputed'))));
  return parts.filter(Boolean);
}

/** The largest weights of a row or a column, with the parts that each chosen head has in them. */
function weightBars(d, side, index, title) {
  const tokens = side === 'query' ? d.key : d.query, per = weightsOf(d, side, index), shares = sharesOf(per);
  const size = i => (Number.isNaN(shares[i].total) ? Infinity : Math.abs(shares[i].total));
  const order = shares.map((_, i) => i).filter(i => size(i) > 0).sort((a, b) => size(b) - size(a)).slice(0, 12);
  const most = Math.max(1e-9, ...order.map(size).filter(Number.isFinite));
  const bar = (weights, n, i) => {
    const w = weights[i];
    if (Number.isNaN(w)) return make('i', {class: 'hatched', vars: {'--part': `${100 / per.length}%`}});
    return make('i', {
      'data-pattern': String(headPattern(n)),
      vars: {'--part': `${100 * Math.abs(w) / per.length / most}%`, '--color': css(weightColor(w, n))}
    });
  };
  const lines = order.map(
      i => make(
          'li', {}, make('bdi', {class: 'token', title: tokens.labels[i].slice(0, 300)}, tokenText(tokens, i)),
          make('span', {class: 'stack'}, ...per.map((weights, n) => bar(weights, n, i))),
          make('span', {class: 'amount'}, weightText(shares[i].total))));
  return [
    make('h3', {}, title),
    order.length ? make('ol', {class: 'bars'}, ...lines) : make('p', {class: 'faint'}, tr('nothing'))
  ];
}

/** What a reader must know before trusting a row. */
function rowRemarks(d, query) {
  const dropped = d.mean.dropped[query], {below, unknown} = d.mean.oddOf(query);
  const sum = d.mean.row(query).reduce((a, b) => a + b, 0) + dropped, remarks = [], {shares} = group();
  const flag = text => remarks.push(make('p', {class: 'flag'}, text));
  if (unknown) flag(tr('rowNotFinite', {n: unknown}));
  if (below && shares) flag(tr('rowBelow0', {n: below}));
  if (!unknown && !below && shares) {
    if (sum < 1e-6)
      flag(tr('rowZero'));
    else if (Math.abs(sum - 1) > 0.002)
      flag(tr('rowSum', {sum: number(sum)}));
  }
  const share = d.mean.droppedShare(query);
  if (share > 5e-5) remarks.push(make('p', {class: 'faint'}, tr('rowDropped', {share: percent(share)})));
  return remarks;
}
