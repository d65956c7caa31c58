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

/** A vector as a row of cells, with numbers where there are few. `weigh` fades what counts little. */
function strip(vector, name, top, factor = 1) {
  const numbers = vector.length <= 8;
  const size = numbers ? (vector.length <= 4 ? 44 : 34) : Math.max(2, Math.min(11, Math.floor(208 / vector.length))), h = numbers ? 22 : 18;
  const canvas = makeCanvas(size * vector.length, h, {class: 'strip', role: 'img', 'aria-label': `${name}: ${[...vector].slice(0, 64).map(x => number(x * factor)).join(', ')}`});
  const pen = new CanvasPen(canvas.getContext('2d'));
  vector.forEach((x, d) => {
    const color = signColor(x * factor / top);
    pen.rect(d * size, 0, size - (numbers ? 1 : size > 6 ? 0.5 : 0), h, css(color));
    if (numbers) pen.text((d + 0.5) * size, h / 2, size > 40 ? number(x * factor) : (x * factor).toFixed(2), {size: 11, align: 'center', color: textOn(color)});
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
      container.append(make('p', {class: 'note'}, 'The vectors of this tab are not part of this page.'));
      return;
    }
    const {layer, head} = g.head(state.heads[0]), i = this.queryIndex();
    const c = computeRow(vectors, head, i, g.keys);
    this.last = {c, vectors, head, i, layer};
    const names = g.valueLabels.length ? g.valueLabels : g.key.labels;
    const keysOf = c.rows.map(row => vectors.k(head, row.j)), valuesOf = c.rows.map(row => vectors.v(head, row.j));
    const topK = largestOf([...keysOf, c.q]), topV = largestOf(valuesOf);
    const symbol = i + 1;
    const scale = g.scale ? `scale ${number(vectors.scale)}` : `\u221a${vectors.size} = ${number(Math.sqrt(vectors.size))}`;
    const masked = c.rows.some(row => !row.allowed);
    const stage = (n, title, text) => make('th', {scope: 'col'}, make('span', {class: 'stage-number'}, String(n)), make('span', {}, title), make('small', {}, text));

    const order = g.keys > 48 ? [...c.rows].sort((a, b) => b.weight - a.weight).slice(0, 48) : c.rows;
    const body = order.map(row => {
      const label = tokenText(g.key, row.j);
      const open = this.opened === row.j;
      const main = make('tr', {class: row.allowed ? '' : 'masked', vars: {'--weight': String(row.weight)}},
        make('th', {scope: 'row'}, make('button', {type: 'button', class: 'link', 'data-token': String(row.j), 'aria-expanded': String(open), title: 'the products, one by one', onclick: () => {
          this.opened = open ? null : row.j;
          change({});
        }}, make('bdi', {}, label))),
        make('td', {}, strip(vectors.k(head, row.j), `k${row.j + 1}`, topK)),
        make('td', {class: 'value'}, number(row.product)),
        make('td', {class: 'value'}, number(row.scaled)),
        masked && make('td', {class: 'value'}, row.allowed ? number(row.score) : '\u2212\u221e'),
        make('td', {class: 'value'}, number(row.exp)),
        make('td', {class: 'value weight'}, make('span', {class: 'meter', vars: {'--part': `${100 * row.weight}%`}}), make('b', {}, number(row.weight))),
        make('td', {}, strip(vectors.v(head, row.j), `v${row.j + 1}`, topV), g.valueLabels.length ? make('bdi', {class: 'faint'}, ` ${names[row.j]}`) : ''),
        make('td', {}, strip(vectors.v(head, row.j), `weighted v${row.j + 1}`, topV, row.weight)));
      if (!open) return [main];
      const products = Array.from(c.q, (x, d) => ({d, q: x, k: vectors.k(head, row.j)[d]})).sort((a, b) => Math.abs(b.q * b.k) - Math.abs(a.q * a.k));
      const few = products.slice(0, 12).map(p => `${number(p.q)} \u00d7 ${number(p.k)} [${p.d + 1}]`).join('  +  ');
      const rest = products.slice(12).reduce((sum, p) => sum + p.q * p.k, 0);
      return [main, make('tr', {class: 'opened'}, make('td', {colSpan: masked ? 9 : 8}, `q\u00b7k = ${few}${products.length > 12 ? `  +  ${number(rest)} of the other ${products.length - 12}` : ''}  =  ${number(row.product)}`))];
    });

    container.append(
      make('section', {class: 'inside'},
        make('p', {class: 'formula'}, 'output', make('sub', {}, String(symbol)), ' = \u2211', make('sub', {}, 'j'), ' softmax', make('sub', {}, 'j'), '( q', make('sub', {}, String(symbol)), ' \u00b7 k', make('sub', {}, 'j'), g.scale ? ` \u00d7 ${number(vectors.scale)}` : ` / \u221a${vectors.size}`, masked ? ' + mask' : '', ' ) v', make('sub', {}, 'j')),
        make('div', {class: 'queryline'}, make('span', {class: 'stage-number'}, '1'), make('span', {}, 'The query of ', make('bdi', {class: 'token'}, tokenText(g.query, i)), ' in ', g.headName(state.heads[0]), ', ', `${vectors.size} numbers: `), strip(c.q, `q${symbol}`, topK)),
        make('div', {class: 'scroll'}, make('table', {class: 'numbers steps-table'},
          make('caption', {}, g.keys > 48 ? `The 48 keys with the largest weights, of ${g.keys}` : 'Each line is one key; choose it to see its products'),
          make('thead', {}, make('tr', {}, make('th', {scope: 'col'}, 'key'), stage(2, 'its vector k', 'what the token offers'), stage(3, 'q \u00b7 k', 'how well they match'), stage(4, g.scale ? '\u00d7 scale' : '/ \u221aD', scale),
            masked && stage(5, 'mask', 'later tokens: \u2212\u221e'), stage(masked ? 6 : 5, 'exp', `less the largest, ${number(c.largest)}`), stage(masked ? 7 : 6, 'weight', `divided by the sum, ${number(c.sum)}`), stage(masked ? 8 : 7, 'its value v', 'what the token says'), stage(masked ? 9 : 8, 'weight \u00d7 v', 'its part of the output'))),
          make('tbody', {}, ...body.flat()),
          make('tfoot', {}, make('tr', {}, make('th', {scope: 'row'}, 'sum'), make('td'), make('td'), make('td'), masked && make('td'), make('td', {class: 'value'}, number(c.sum)), make('td', {class: 'value'}, number(c.rows.reduce((sum, row) => sum + row.weight, 0))), make('td', {class: 'value'}, 'output', make('sub', {}, String(symbol)), ' ='), make('td', {}, strip(c.out, `output${symbol}`, topV)))))),
        make('p', {class: 'faint'}, this.agreement(g, c, i))));
  },

  /** How the page's own arithmetic agrees with the weights that heed computed. */
  agreement(g, c, i) {
    const grid = g.grids[state.heads[0]];
    let worst = 0;
    for (const row of c.rows) {
      const stored = grid.at(i, row.j);
      if (stored > 0 || g.whole) worst = Math.max(worst, Math.abs(stored - row.weight));
    }
    return `Computed here from the stored vectors, in double precision. The weights that heed\u2019s kernel gave differ by ${number(worst)} at most.`;
  },

  tools() {
    const g = group(), h = state.heads[0];
    const heads = [];
    for (let n = 0; n < g.layers * g.heads; ++n) if (g.hasVectors(g.head(n).layer)) heads.push([n, g.headName(n)]);
    return [
      heads.length > 1 && choice('Head', heads, h, n => change({heads: [Number(n)]})),
      g.queries > 1 && choice('Query', g.query.labels.map((label, i) => [i, `${i + 1}  ${label.slice(0, 30)}`]), this.queryIndex(), i => change({query: Number(i), key: null, pinned: true})),
      g.queries > 1 && make('span', {class: 'segments', role: 'group', 'aria-label': 'Move to another query'},
        make('button', {type: 'button', 'data-value': 'before', 'aria-label': 'query before', disabled: this.queryIndex() === 0, onclick: () => change({query: this.queryIndex() - 1, pinned: true})}, '\u2191'),
        make('button', {type: 'button', 'data-value': 'after', 'aria-label': 'query behind', disabled: this.queryIndex() === g.queries - 1, onclick: () => change({query: this.queryIndex() + 1, pinned: true})}, '\u2193')),
    ].filter(Boolean);
  },

  paint(pen) {
    const g = group(), {c, vectors, head, i} = this.last;
    const label = Math.max(50, widest(g.key.labels, 12, 160)) + 12, numbers = 64, cell = Math.min(40, 360 / Math.max(vectors.size, vectors.valueSize));
    const columns = {k: label + 10, product: label + 20 + cell * vectors.size, v: label + 30 + cell * vectors.size + 4 * numbers};
    const width = columns.v + cell * vectors.valueSize + 20, row = 22;
    const top = largestOf([...c.rows.map(r => vectors.k(head, r.j)), c.q]), topV = largestOf(c.rows.map(r => vectors.v(head, r.j)));
    const cells = (x, y, vector, most) => vector.forEach((value, d) => {
      const color = signColor(value / most);
      pen.rect(x + d * cell, y, cell - 0.5, row - 3, css(color));
      if (cell >= 30) pen.text(x + (d + 0.5) * cell, y + row / 2 - 1, number(value), {size: 9, align: 'center', color: textOn(color)});
    });
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(10, 38, `${g.name}, ${g.headName(state.heads[0])}, query ${i + 1}: ${g.query.labels[i]}`, {size: 12, color: ink().faint, width: width - 20});
    let y = 56;
    pen.text(10, y + 10, 'q', {bold: true});
    cells(columns.k, y, c.q, top);
    y += row + 8;
    ['q\u00b7k', g.scale ? '\u00d7 scale' : '/ \u221aD', 'mask', 'weight'].forEach((name, n) => pen.text(columns.product + (n + 1) * numbers - 6, y + 8, name, {size: 11, align: 'right', color: ink().faint}));
    pen.text(columns.k, y + 8, 'k', {size: 11, color: ink().faint});
    pen.text(columns.v, y + 8, 'v', {size: 11, color: ink().faint});
    y += row;
    for (const r of c.rows) {
      pen.text(10, y + row / 2, tokenText(g.key, r.j), {size: 12, width: label - 8});
      cells(columns.k, y, vectors.k(head, r.j), top);
      [r.product, r.scaled, r.score, r.weight].forEach((value, n) => pen.text(columns.product + (n + 1) * numbers - 6, y + row / 2, value === -Infinity ? '\u2212\u221e' : number(value), {size: 11, align: 'right', bold: n === 3}));
      cells(columns.v, y, vectors.v(head, r.j), topV);
      y += row;
    }
    y += 6;
    pen.text(columns.v - 10, y + row / 2, 'output', {size: 12, align: 'right', bold: true});
    cells(columns.v, y, c.out, topV);
    return {width, height: y + row + 12};
  },

  csv() {
    const g = group(), {c, vectors, head, i, layer} = this.last;
    const names = (letter, count) => Array.from({length: count}, (_, d) => `${letter}${d + 1}`);
    return [['layer', 'head', 'query', 'query token', 'key', 'key token', 'q.k', 'scaled', 'allowed', 'weight', ...names('k', vectors.size), ...names('v', vectors.valueSize)],
            ...c.rows.map(r => [layer + 1, head + 1, i + 1, g.query.raw[i], r.j + 1, g.key.raw[r.j], r.product, r.scaled, r.allowed ? 1 : 0, r.weight, ...vectors.k(head, r.j), ...vectors.v(head, r.j)])];
  },
};
