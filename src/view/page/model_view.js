// Every layer and head as a small map, in the order of the layers or of what heads do.
function sortedHeads(g) {
  const numbers = Array.from({length: g.layers * g.heads}, (_, n) => n);
  if (state.sort === 'layer') return numbers;
  const value = n => g.figure(n, state.sort) ?? -Infinity;
  return numbers.sort((a, b) => value(b) - value(a) || a - b);
}

/** Whether heads are shown over the picture, and how they look then or else. */
const overPicture = g => g.picture && !state.tokenMaps;
function headImage(g, n) {
  if (overPicture(g)) return headOverPicture(g, n, state.ownScale ? headTop(g, n) : topOfHeads(g));
  return thumbnail(g.grids[n], state.ownScale ? g.tops[n] || 1 : g.top, 160, g.palette);
}
const headShape = g => (overPicture(g) ? [g.picture.width, g.picture.height] : [g.keys, g.queries]);

const modelView = {
  build(container) {
    const g = group();
    const order = sortedHeads(g);
    const [across, down] = headShape(g);
    const detail = make('aside', {class: 'detail', 'aria-label': tr('headLookedAt')});
    const open = n => change({view: 'head', heads: [n], query: null, key: null, pinned: false});
    const show = n => {
      const {role} = g.role(n);
      const map = headImage(g, n);
      map.className = overPicture(g) ? 'pixels smooth' : 'pixels';
      map.style.setProperty('--shape', `${across} / ${down}`);
      detail.replaceChildren(
          make('h2', {}, g.headName(n)), role && make('p', {class: 'role'}, role), map,
          make('p', {class: 'axes'}, overPicture(g) ? tr('whatLooksAt', {token: g.query.labels[0]}) : tr('axes')),
          g.shares ? figureList(g.figures(n), g.query, g.key) : '',
          ...(g.notes[n] ?? []).map(note => make('p', {class: 'flag'}, given(note))),
          make('button', {type: 'button', class: 'open', onclick: () => open(n)}, tr('openHead')));
      modelView.looked = n;
    };
    // A finger cannot point: its first tap shows the figures, a second one opens.
    const choose = (event, n) => {
      const shown = modelView.tapped === n || event.pointerType !== 'touch';
      modelView.tapped = shown ? null : n;
      if (shown) return open(n);
      show(n);
      detail.classList.add('tapped');
    };

    if (state.table && g.shares) {
      container.append(make('div', {class: 'model'}, this.table(g, order, open), detail));
    } else {
      const ratio = Math.max(0.4, Math.min(1.6, down / across));
      const tile = n => {
        const canvas = headImage(g, n);
        canvas.className = overPicture(g) ? 'pixels smooth' : 'pixels';
        const flagged = (g.notes[n] ?? []).map(given).join('; ');
        const figures = g.figureNames.map(name => `${figureLabel(name)} ${figureText(g.figure(n, name), name)}`)
                            .join(tr('listSeparator'));
        const {layer, head} = g.head(n), changed = headView.changedIn(g, n);
        return make(
            'button', {
              type: 'button',
              class: 'tile' + (state.heads.includes(n) ? ' chosen' : ''),
              'data-head': String(n),
              tabIndex: n === order[0] ? 0 : -1,
              'aria-label': `${g.headName(n)}: ${changed && changed + '; '}${figures}${
                  flagged && tr('flaggedTile', {notes: flagged})}`,
              onclick: event => choose(event, n),
              onpointerenter: event => event.pointerType === 'mouse' && show(n),
              onfocus: () => show(n),
            },
            canvas,
            make(
                'span', {class: 'caption'}, make('b', {}, `${layer + 1}\u00b7${head + 1}`),
                make(
                    'span', {title: g.role(n).role},
                    state.sort === 'layer' ? g.role(n).tag : figureText(g.figure(n, state.sort), state.sort)),
                flagged && make('span', {class: 'flag', title: flagged}, '!'),
                changed && make('span', {class: 'changed', title: changed}, '\u2260')),
            g.importance && make('span', {
              class: 'meter',
              title: `${figureLabel('importance')} ${figureText(g.importance[n], 'importance')}`,
              vars: {'--part': `${100 * this.part(g, n)}%`}
            }));
      };
      const size = Math.min(g.heads, 12);
      const tiles = make('div', {
        class: 'tiles',
        vars: {
          '--columns': String(size),
          '--ratio': String(1 / ratio),
          '--layers': String(state.sort === 'layer' ? g.layers : Math.ceil(order.length / size))
        }
      });
      if (state.sort === 'layer') {
        for (let l = 0; l < g.layers; ++l)
          tiles.append(make(
              'div', {class: 'layer'}, make('h3', {}, g.layers > 1 ? tr('layerHeading', {layer: l + 1}) : ''),
              make('div', {class: 'row'}, ...order.slice(l * g.heads, (l + 1) * g.heads).map(tile))));
      } else {
        tiles.append(make(
            'div', {class: 'layer'}, make('h3', {}, tr('inOrderOf', {figure: figureLabel(state.sort)})),
            make('div', {class: 'row'}, ...order.map(tile))));
      }
      const inRow = () => {
        const all = [...tiles.querySelectorAll('.tile')];
        const first = all[0].offsetTop;
        return Math.max(1, all.filter(t => t.offsetTop === first).length);
      };
      rove(tiles, '.tile', inRow);
      container.append(make('div', {class: 'model'}, tiles, detail));
    }
    show([this.looked, state.heads[0]].find(n => order.includes(n)) ?? order[0]);
  },

  /** How much of a full bar the importance of a head is. */
  part(g, n) { return g.importance[n] / g.mostImportant; },

  table(g, order, open) {
    const names = g.figureNames;
    const header = (name, label, title) => make(
        'th',
        {scope: 'col', 'aria-sort': state.sort === name ? (name === 'layer' ? 'ascending' : 'descending') : 'none'},
        make('button', {type: 'button', title, onclick: () => change({sort: name})}, label));
    return make(
        'div', {class: 'scroll'},
        make(
            'table', {class: 'numbers'}, make('caption', {}, tr('tableCaption', {name: g.shownName})),
            make(
                'thead', {},
                make(
                    'tr', {}, header('layer', tr('tableHead'), ''),
                    ...names.map(name => header(name, figureLabel(name), tr(`about_${name}`))),
                    make('th', {scope: 'col'}, tr('tableRole')))),
            make(
                'tbody', {},
                ...order.map(
                    n => make(
                        'tr', {},
                        make(
                            'th', {scope: 'row'},
                            make('button', {type: 'button', class: 'link', onclick: () => open(n)}, g.headName(n))),
                        ...names.map(name => make('td', {}, figureText(g.figure(n, name), name))),
                        make('td', {}, g.role(n).role))))));
  },

  tools() {
    const g = group();
    return [
      g.shares &&
          choice(
              tr('order'),
              [
                ['layer', tr('byLayer')],
                ...g.figureNames.map(name => [name, tr('byFigure', {figure: figureLabel(name)})])
              ],
              state.sort, sort => change({sort})),
      g.shares && toggle(tr('asTable'), state.table, table => change({table})),
      toggle(tr('ownScale'), state.ownScale, ownScale => change({ownScale})),
      liftTool(),
      g.picture &&
          toggle(
              tr('allTokens'), state.tokenMaps, tokenMaps => change({tokenMaps}),
              tr('allTokensWhy', {token: g.query.labels[0]})),
      colorBar(this.scale()),
    ].filter(Boolean);
  },

  scale() {
    const g = group();
    if (state.ownScale) return scaleOf(tr('largestOfHead'), g.palette);
    return scaleOf(overPicture(g) ? topOfHeads(g) : g.top, g.palette);
  },

  paint(pen) {
    const g = group(), order = sortedHeads(g);
    const size = Math.max(40, Math.min(110, 1100 / Math.min(12, g.heads))), gap = 10, caption = g.importance ? 24 : 16;
    const columns = state.sort === 'layer' ? g.heads : Math.min(12, order.length);
    const [across, down] = headShape(g), height = size * Math.max(0.4, Math.min(1.6, down / across));
    const rows = Math.ceil(order.length / columns), width = Math.max(320, 20 + columns * (size + gap));
    pen.text(10, 18, pageTitle(), {size: 14, bold: true, width: width - 20});
    pen.text(10, 38, tr('everyHead', {name: g.shownName}), {size: 12, color: ink().faint, width: width - 20});
    order.forEach((n, at) => {
      const x = 10 + (at % columns) * (size + gap), y = 56 + Math.floor(at / columns) * (height + caption + gap);
      pen.image(headImage(g, n), x, y, size, height);
      pen.frame(x, y, size, height, ink().line);
      const {layer, head} = g.head(n);
      const value = state.sort === 'layer' ? g.role(n).tag : figureText(g.figure(n, state.sort), state.sort);
      pen.text(x, y + height + 9, `${layer + 1}\u00b7${head + 1} ${value}`, {size: 10, width: size});
      if (!g.importance) return;
      pen.rect(x, y + height + 17, size, 5, ink().line);
      pen.rect(x, y + height + 17, size * this.part(g, n), 5, headColor(0));
    });
    const bottom = 56 + rows * (height + caption + gap) + 6;
    paintColorBar(pen, 10, bottom + 6, this.scale());
    return {width: Math.max(width, 420), height: bottom + 22};
  },

  csv() {
    const g = group(), names = g.figureNames;
    return [
      ['layer', 'head', ...names.map(name => TEXTS[`figure_${name}`].en), 'strongest key is'],
      ...sortedHeads(g).map(
          n =>
              [g.head(n).layer + 1, g.head(n).head + 1, ...names.map(name => g.figure(n, name)),
               g.key.labels[g.sinks[n].key] ?? ''])
    ];
  },
};
