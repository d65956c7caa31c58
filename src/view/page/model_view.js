// Every layer and head as a small map, in the order of the layers or of what heads do.
function sortedHeads(g) {
  const numbers = Array.from({length: g.layers * g.heads}, (_, n) => n);
  if (state.sort === 'layer') return numbers;
  const value = n => g.figure(n, state.sort) ?? -Infinity;
  return numbers.sort((a, b) => value(b) - value(a) || a - b);
}

const modelView = {
  build(container) {
    const g = group();
    const order = sortedHeads(g);
    const top = n => (state.ownScale ? g.tops[n] || 1 : g.top);
    const detail = make('aside', {class: 'detail', 'aria-label': 'The head looked at'});
    const show = n => {
      const {role} = g.role(n);
      const map = thumbnail(g.grids[n], top(n));
      map.className = 'pixels';
      map.style.setProperty('--shape', `${g.keys} / ${g.queries}`);
      detail.replaceChildren(
        make('h2', {}, g.headName(n)), role && make('p', {class: 'role'}, role), map,
        make('p', {class: 'axes'}, 'down: queries, across: keys'), figureList(g, n),
        ...(g.notes[n] ?? []).map(note => make('p', {class: 'flag'}, note)));
      modelView.looked = n;
    };
    const open = n => change({view: 'head', heads: [n], query: null, key: null, pinned: false});

    if (state.table) {
      container.append(make('div', {class: 'model'}, this.table(g, order, open), detail));
    } else {
      const ratio = Math.max(0.4, Math.min(1.6, g.queries / g.keys));
      const tile = n => {
        const canvas = thumbnail(g.grids[n], top(n));
        canvas.className = 'pixels';
        const flagged = g.notes[n] ? ', flagged: ' + g.notes[n].join('; ') : '';
        const figures = Object.keys(FIGURES).map(name => `${FIGURES[name].label} ${figureText(g, n, name)}`).join(', ');
        const {layer, head} = g.head(n);
        return make('button', {
          type: 'button', class: 'tile' + (state.heads.includes(n) ? ' chosen' : ''), 'data-head': String(n), tabIndex: n === order[0] ? 0 : -1,
          'aria-label': `${g.headName(n)}: ${figures}${flagged}`, onclick: () => open(n),
          onmouseenter: () => show(n), onfocus: () => show(n),
        }, canvas, make('span', {class: 'caption'}, make('b', {}, `${layer + 1}\u00b7${head + 1}`),
                        make('span', {title: g.role(n).role}, state.sort === 'layer' ? g.role(n).tag : figureText(g, n, state.sort)),
                        g.notes[n] && make('span', {class: 'flag', title: g.notes[n].join('; ')}, '!')));
      };
      const size = Math.min(g.heads, 12);
      const tiles = make('div', {class: 'tiles', vars: {'--columns': String(size), '--ratio': String(1 / ratio), '--layers': String(state.sort === 'layer' ? g.layers : Math.ceil(order.length / size))}});
      if (state.sort === 'layer') {
        for (let l = 0; l < g.layers; ++l)
          tiles.append(make('div', {class: 'layer'}, make('h3', {}, g.layers > 1 ? `Layer ${l + 1}` : ''),
                            make('div', {class: 'row'}, ...order.slice(l * g.heads, (l + 1) * g.heads).map(tile))));
      } else {
        tiles.append(make('div', {class: 'layer'}, make('h3', {}, `By ${FIGURES[state.sort].label}`),
                          make('div', {class: 'row'}, ...order.map(tile))));
      }
      const across = () => {
        const all = [...tiles.querySelectorAll('.tile')];
        const first = all[0].offsetTop;
        return Math.max(1, all.filter(t => t.offsetTop === first).length);
      };
      rove(tiles, '.tile', across);
      container.append(make('div', {class: 'model'}, tiles, detail));
    }
    show([this.looked, state.heads[0]].find(n => order.includes(n)) ?? order[0]);
  },

  table(g, order, open) {
    const names = Object.keys(FIGURES);
    const header = (name, label, title) => make('th', {scope: 'col', 'aria-sort': state.sort === name ? (name === 'layer' ? 'ascending' : 'descending') : 'none'},
      make('button', {type: 'button', title, onclick: () => change({sort: name})}, label));
    return make('div', {class: 'scroll'}, make('table', {class: 'numbers'},
      make('caption', {}, `What each head of ${g.name} does, in the mean over its queries`),
      make('thead', {}, make('tr', {}, header('layer', 'layer, head', ''), ...names.map(name => header(name, FIGURES[name].label, FIGURES[name].text)), make('th', {scope: 'col'}, 'so it is'))),
      make('tbody', {}, ...order.map(n => make('tr', {}, make('th', {scope: 'row'},
        make('button', {type: 'button', class: 'link', onclick: () => open(n)}, g.headName(n))),
        ...names.map(name => make('td', {}, figureText(g, n, name))), make('td', {}, g.role(n).role))))));
  },

  tools() {
    const g = group();
    return [
      choice('Order', [['layer', 'by layer'], ...Object.entries(FIGURES).map(([name, f]) => [name, `by ${f.label}`])], state.sort, sort => change({sort})),
      toggle('figures as a table', state.table, table => change({table})),
      toggle('own scale for each head', state.ownScale, ownScale => change({ownScale})),
      liftTool(),
      colorBar(state.ownScale ? 'largest of each head' : number(g.top)),
    ];
  },

  paint(pen) {
    const g = group(), order = sortedHeads(g);
    const size = Math.max(40, Math.min(110, 1100 / Math.min(12, g.heads))), gap = 10, caption = 16;
    const columns = state.sort === 'layer' ? g.heads : Math.min(12, order.length);
    const height = size * Math.max(0.4, Math.min(1.6, g.queries / g.keys));
    const rows = Math.ceil(order.length / columns), width = Math.max(320, 20 + columns * (size + gap));
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(10, 38, `${g.name}: every layer and head`, {size: 12, color: ink().faint, width: width - 20});
    order.forEach((n, at) => {
      const x = 10 + (at % columns) * (size + gap), y = 56 + Math.floor(at / columns) * (height + caption + gap);
      pen.image(thumbnail(g.grids[n], state.ownScale ? g.tops[n] || 1 : g.top), x, y, size, height);
      pen.frame(x, y, size, height, ink().line);
      const {layer, head} = g.head(n);
      const value = state.sort === 'layer' ? g.role(n).tag : figureText(g, n, state.sort);
      pen.text(x, y + height + 9, `${layer + 1}\u00b7${head + 1} ${value}`, {size: 10, width: size});
    });
    return {width, height: 56 + rows * (height + caption + gap) + 6};
  },

  csv() {
    const g = group(), names = Object.keys(FIGURES);
    return [['layer', 'head', ...names.map(name => FIGURES[name].label), 'strongest key is'],
            ...sortedHeads(g).map(n => [g.head(n).layer + 1, g.head(n).head + 1, ...names.map(name => g.figure(n, name)), g.key.labels[g.sinks[n].key] ?? ''])];
  },
};
