// One head and one query: every step from q and k to the output, in numbers.
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** The computation of one row: dot products, scaled scores, weights and the output. */
function computeRow(vectors, h, i, keys) {
  const q = vectors.q(h, i);
  const rows = Array.from({length: keys}, (_, j) => {
    const product = dot(q, vectors.k(h, j)), allowed = vectors.allowed(i, j);
    return {j, product, scaled: product * vectors.scale, allowed, score: allowed ? product * vectors.scale : -Infinity};
  });
  const largest = Math.max(...rows.map(row => row.score));
  let sum = 0;
  for (const row of rows) {
    row.exp = largest === -Infinity ? 0 : Math.exp(row.score - largest);
    sum += row.exp;
  }
  const out = new Float64Array(vectors.valueSize);
  for (const row of rows) {
    row.weight = sum ? row.exp / sum : 0;
    const v = vectors.v(h, row.j);
    for (let d = 0; d < out.length; ++d) out[d] += row.weight * v[d];
  }
  return {q, rows, largest, sum, out};
}

/** A vector times `factor` as a row of cells, with numbers where there are few; low where many rows are printed. */
function strip(vector, name, top, factor = 1, low = false) {
  const numbers = vector.length <= 8 && !low;
  const size = numbers ? (vector.length <= 4 ? 44 : 34) : Math.max(2, Math.min(11, Math.floor(208 / vector.length))),
        h = low ? 9 :
      numbers   ? 22 :
                  18;
  const canvas = makeCanvas(size * vector.length, h, {
    class: 'strip',
    role: 'img',
    'aria-label': `${name}: ${[...vector].slice(0, 64).map(x => number(x * factor)).join(tr('listSeparator'))}`
  });
  const pen = new CanvasPen(canvas.getContext('2d'));
  vector.forEach((x, d) => {
    const color = signColor(x * factor / top);
    pen.rect(d * size, 0, size - (numbers ? 1 : size > 6 ? 0.5 : 0), h, css(color));
    if (numbers)
      pen.text(
          (d + 0.5) * size, h / 2, size > 40 ? number(x * factor) : fixed(x * factor, 2),
          {size: 11, align: 'center', color: textOn(color)});
  });
  canvas.addEventListener('mousemove', event => {
    const d = Math.min(vector.length - 1, Math.floor((event.offsetX) / size));
    canvas.title = `${name}[${d + 1}] = ${number(vector[d] * factor)}`;
  });
  return canvas;
}

const insideView = {
  async prepare() {
    const g = group(), {layer} = g.head(state.heads[0]);
    return g.hasVectors(layer) ? g.vectorsOf(layer) : null;
  },

  /** The query looked at; one in the middle, which a mask hides something from, where none was chosen. */
  queryIndex() {
    const g = group();
    return state.query !== null && state.query < g.queries ? state.query : Math.floor(g.queries / 2);
  },

  build(container, vectors) {
    const g = group();
    if (!vectors) {
      container.append(make('p', {class: 'note'}, tr('noVectors')));
      return;
    }
    const {layer, head} = g.head(state.heads[0]), i = this.queryIndex();
    const c = computeRow(vectors, head, i, g.keys);
    const order = g.keys > 48 ? [...c.rows].sort((a, b) => b.weight - a.weight).slice(0, 48) : c.rows;
    const low = paper.printing && order.length > 20;
    this.last = {c, vectors, head, i, layer, order};
    const names = g.valueLabels.length ? g.valueLabels : g.key.labels;
    const keysOf = c.rows.map(row => vectors.k(head, row.j)), valuesOf = c.rows.map(row => vectors.v(head, row.j));
    const topK = largestOf([...keysOf, c.q]), topV = largestOf(valuesOf);
    const symbol = i + 1;
    const scale = g.scale ? tr('columnScaleValue', {value: number(vectors.scale)}) :
                            `\u221a${vectors.size} = ${number(Math.sqrt(vectors.size))}`;
    const masked = c.rows.some(row => !row.allowed);
    const stage = (n, title, text) => make(
        'th', {scope: 'col'}, make('span', {class: 'stage-number'}, String(n)), make('span', {}, title),
        make('small', {}, text));

    const body = order.map(row => {
      const label = tokenText(g.key, row.j);
      const open = state.opened === row.j;
      const main = make(
          'tr', {class: row.allowed ? '' : 'masked', vars: {'--weight': String(row.weight)}},
          make(
              'th', {scope: 'row'},
              make(
                  'button', {
                    type: 'button',
                    class: 'link',
                    'data-token': String(row.j),
                    'aria-expanded': String(open),
                    title: tr('theProducts'),
                    onclick: () => change({opened: open ? null : row.j})
                  },
                  make('bdi', {}, label))),
          make('td', {}, strip(vectors.k(head, row.j), `k${row.j + 1}`, topK, 1, low)),
          make('td', {class: 'value'}, number(row.product)), make('td', {class: 'value'}, number(row.scaled)),
          masked && make('td', {class: 'value'}, row.allowed ? number(row.score) : '\u2212\u221e'),
          make('td', {class: 'value'}, number(row.exp)),
          make(
              'td', {class: 'value weight'}, make('span', {class: 'meter', vars: {'--part': `${100 * row.weight}%`}}),
              make('b', {}, number(row.weight))),
          make(
              'td', {}, strip(vectors.v(head, row.j), `v${row.j + 1}`, topV, 1, low),
              g.valueLabels.length ? make('bdi', {class: 'faint'}, ` ${names[row.j]}`) : ''),
          make('td', {}, strip(vectors.v(head, row.j), `${tr('columnPart')}${row.j + 1}`, topV, row.weight, low)));
      if (!open) return [main];
      const products = Array.from(c.q, (x, d) => ({d, q: x, k: vectors.k(head, row.j)[d]}))
                           .sort((a, b) => Math.abs(b.q * b.k) - Math.abs(a.q * a.k));
      const few = products.slice(0, 12).map(p => `${number(p.q)} \u00d7 ${number(p.k)} [${p.d + 1}]`).join('  +  ');
      const rest = products.slice(12).reduce((sum, p) => sum + p.q * p.k, 0);
      return [
        main,
        make(
            'tr', {class: 'opened'},
            make(
                'td', {colSpan: masked ? 9 : 8},
                `q\u00b7k = ${few}${
                    products.length > 12 ? `  +  ${tr('otherProducts', {sum: number(rest), n: products.length - 12})}` :
                                           ''}  =  ${number(row.product)}`))
      ];
    });

    container.append(make(
        'section', {class: 'inside'},
        make(
            'p', {class: 'formula'}, tr('formulaOutput'), make('sub', {}, String(symbol)), ' = \u2211',
            make('sub', {}, 'j'), ' ', term('softmax', 'softmax'), make('sub', {}, 'j'), '( q',
            make('sub', {}, String(symbol)), ' \u00b7 k', make('sub', {}, 'j'),
            g.scale ? ` \u00d7 ${number(vectors.scale)}` : ` / \u221a${vectors.size}`, masked ? tr('formulaMask') : '',
            ' ) v', make('sub', {}, 'j')),
        make(
            'div', {class: 'queryline'}, make('span', {class: 'stage-number'}, '1'),
            make('span', {}, ...trParts('queryLine', {
                   token: make('bdi', {class: 'token'}, tokenText(g.query, i)),
                   head: g.headName(state.heads[0]),
                   size: vectors.size
                 })),
            strip(c.q, `q${symbol}`, topK)),
        make(
            'div', {class: 'scroll'},
            make(
                'table', {class: low ? 'numbers steps-table low' : 'numbers steps-table'},
                make('caption', {}, g.keys > 48 ? tr('largestKeys', {n: 48, count: g.keys}) : tr('oneKeyALine')),
                make(
                    'thead', {},
                    make(
                        'tr', {}, make('th', {scope: 'col'}, term('key', tr('columnKey'))),
                        stage(2, tr('columnK'), tr('columnKWhy')),
                        stage(3, tr('columnProduct'), tr('columnProductWhy')),
                        stage(4, g.scale ? tr('columnScale') : '/ \u221aD', scale),
                        masked && stage(5, tr('columnMask'), tr('columnMaskWhy')),
                        stage(masked ? 6 : 5, tr('columnExp'), tr('columnExpWhy', {value: number(c.largest)})),
                        stage(masked ? 7 : 6, tr('columnWeight'), tr('columnWeightWhy', {value: number(c.sum)})),
                        stage(masked ? 8 : 7, tr('columnV'), tr('columnVWhy')),
                        stage(masked ? 9 : 8, tr('columnPart'), tr('columnPartWhy')))),
                make('tbody', {}, ...body.flat()),
                make(
                    'tfoot', {},
                    make(
                        'tr', {}, make('th', {scope: 'row'}, tr('rowSumName')), make('td'), make('td'), make('td'),
                        masked && make('td'), make('td', {class: 'value'}, number(c.sum)),
                        make('td', {class: 'value'}, number(c.rows.reduce((sum, row) => sum + row.weight, 0))),
                        make('td', {class: 'value'}, tr('formulaOutput'), make('sub', {}, String(symbol)), ' ='),
                        make('td', {}, strip(c.out, `${tr('formulaOutput')}${symbol}`, topV, 1, low)))))),
        make('p', {class: 'faint'}, this.agreement(g, c, i))));
  },

  /** On paper a wide table is made smaller. */
  ready(container) {
    const table = container.querySelector('.steps-table');
    if (table && paper.printing) table.style.zoom = String(Math.min(1, 700 / table.offsetWidth));
  },

  /** How the page's own arithmetic agrees with the weights that heed computed. */
  agreement(g, c, i) {
    const grid = g.grids[state.heads[0]];
    let worst = 0;
    for (const row of c.rows) {
      const stored = grid.at(i, row.j);
      if (stored > 0 || g.whole) worst = Math.max(worst, Math.abs(stored - row.weight));
    }
    return tr('agreement', {worst: number(worst)});
  },

  tools() {
    const g = group(), h = state.heads[0];
    const heads = [];
    for (let n = 0; n < g.layers * g.heads; ++n)
      if (g.hasVectors(g.head(n).layer)) heads.push([n, g.headName(n)]);
    return [
      heads.length > 1 && choice(tr('toolHead'), heads, h, n => change({heads: [Number(n)]})),
      g.queries > 1 &&
          choice(
              tr('toolQuery'), g.query.labels.map((label, i) => [i, `${i + 1}  ${label.slice(0, 30)}`]),
              this.queryIndex(), i => this.goTo(Number(i)), () => ''),
      g.queries > 1 &&
          make(
              'span', {class: 'segments', role: 'group', 'aria-label': tr('moveQuery')},
              this.moveButton('before', 'queryBefore', '\u2191', -1),
              this.moveButton('after', 'queryAfter', '\u2193', 1)),
    ].filter(Boolean);
  },

  moveButton(name, label, sign, by) {
    const to = this.queryIndex() + by, there = to >= 0 && to < group().queries;
    return make(
        'button', {
          type: 'button',
          'data-value': name,
          'aria-label': tr(label),
          'aria-disabled': there ? null : 'true',  // not disabled: it may have the focus when it comes to the end
          onclick: () => there && this.goTo(to)
        },
        sign);
  },

  async goTo(query) {
    await change({query, key: null, pinned: true});
    const g = group();
    say(sharesInWords(g.query.labels[query], g.key.labels, this.last.c.rows.map(row => row.weight)));
  },

  /** The table as it is on the page. */
  paint(pen) {
    const g = group(), {c, vectors, head, i, order} = this.last;
    const masked = c.rows.some(row => !row.allowed);
    const figures = [
      [tr('fileProduct'), row => row.product], [g.scale ? tr('columnScale') : '/ \u221aD', row => row.scaled],
      ...(masked ? [[tr('columnMask'), row => row.score]] : []), [tr('columnExp'), row => row.exp],
      [tr('columnWeight'), row => row.weight]
    ];
    const label = Math.max(50, widest(g.key.labels, 12, 160)) + 12, wide = 64, row = 22;
    const cell = Math.min(40, 320 / Math.max(vectors.size, vectors.valueSize));
    const k = label + 10, first = k + cell * vectors.size, v = first + wide * figures.length + 16,
          part = v + cell * vectors.valueSize + 16, width = part + cell * vectors.valueSize + 20;
    const topK = largestOf([...c.rows.map(r => vectors.k(head, r.j)), c.q]),
          topV = largestOf(c.rows.map(r => vectors.v(head, r.j)));
    const cells = (x, y, vector, top, factor = 1) => vector.forEach((value, d) => {
      const color = signColor(value * factor / top);
      pen.rect(x + d * cell, y, cell - 0.5, row - 3, css(color));
      if (cell >= 30)
        pen.text(
            x + (d + 0.5) * cell, y + row / 2 - 1, number(value * factor),
            {size: 9, align: 'center', color: textOn(color)});
    });
    const value = (n, y, x, bold = false) => pen.text(
        first + (n + 1) * wide - 6, y + row / 2 - 1, x === -Infinity ? '\u2212\u221e' : number(x),
        {size: 11, align: 'right', bold});
    const title = (x, y, text, align = 'left') => pen.text(x, y + 8, text, {size: 11, align, color: ink().faint});
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(
        10, 38,
        tr('fileQuery', {name: g.shownName, head: g.headName(state.heads[0]), n: i + 1, token: g.query.labels[i]}),
        {size: 12, color: ink().faint, width: width - 20});
    let y = 56;
    pen.text(10, y + 10, 'q', {bold: true});
    cells(k, y, c.q, topK);
    y += row + 8;
    title(k, y, 'k');
    figures.forEach(([name], n) => title(first + (n + 1) * wide - 6, y, name, 'right'));
    title(v, y, 'v');
    title(part, y, tr('columnPart'));
    y += row;
    for (const r of order) {
      pen.text(10, y + row / 2, tokenText(g.key, r.j), {size: 12, width: label - 8});
      cells(k, y, vectors.k(head, r.j), topK);
      figures.forEach(([, of], n) => value(n, y, of(r), n === figures.length - 1));
      cells(v, y, vectors.v(head, r.j), topV);
      cells(part, y, vectors.v(head, r.j), topV, r.weight);
      y += row;
    }
    y += 6;
    pen.text(10, y + row / 2, tr('rowSumName'), {size: 12, bold: true});
    value(figures.length - 2, y, c.sum);
    value(figures.length - 1, y, c.rows.reduce((sum, r) => sum + r.weight, 0));
    pen.text(part - 10, y + row / 2, tr('formulaOutput'), {size: 12, align: 'right', bold: true});
    cells(part, y, c.out, topV);
    y += row + 16;
    paintColorBar(pen, 10, y, scaleOf(topK, evenly, tr('vectorsQk')));
    paintColorBar(pen, 300, y, scaleOf(topV, evenly, tr('vectorsV')));
    if (order.length < c.rows.length) {
      y += 20;
      title(10, y - 8, tr('fileLargestKeys', {n: order.length, count: c.rows.length}));
    }
    return {width: Math.max(width, 480), height: y + 20};
  },

  csv() {
    const g = group(), {c, vectors, head, i, layer} = this.last;
    const names = (letter, count) => Array.from({length: count}, (_, d) => `${letter}${d + 1}`);
    return [
      [
        'layer', 'head', 'query', 'query token', 'key', 'key token', 'q.k', 'scaled', 'allowed', 'weight',
        ...names('k', vectors.size), ...names('v', vectors.valueSize)
      ],
      ...c.rows.map(
          r =>
              [layer + 1, head + 1, i + 1, g.query.raw[i], r.j + 1, g.key.raw[r.j], r.product, r.scaled,
               r.allowed ? 1 : 0, r.weight, ...vectors.k(head, r.j), ...vectors.v(head, r.j)])
    ];
  },
};
