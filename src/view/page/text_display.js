// The text itself, with its tokens shaded.
const textDisplay = {
  heading() { return [tr(group().self ? 'textHeadingSelf' : 'textHeading')]; },

  build(stage, d) {
    const g = group();
    const flow = (side, tokens, heading) => {
      const box = make('div', {
        class: 'flow',
        role: 'listbox',
        id: `tokens-${side}`,
        'aria-label': heading,
        dir: tokens.direction,
        lang: ''
      });
      tokens.labels.forEach(
          (label, i) => box.append(
              make(
                  'span', {
                    role: 'option',
                    class: (tokens.continues(i) ? 'piece' : 'piece begins') +
                        (side === 'key' && i === d.hidden ? ' gone' : ''),
                    tabIndex: i === 0 ? 0 : -1,
                    'data-token': String(i),
                    'aria-selected': 'false',
                    ...headView.listeners(side, i),
                  },
                  make('bdi', {}, label)),
              tokens.continues(i + 1) ? '' : ' '));
      rove(box, '.piece');
      return box;
    };
    const query = flow('query', d.query, tr(g.self ? 'theText' : 'queries'));
    this.lists = {query: [...query.children]};
    if (g.self) {
      stage.append(query);
      this.lists.key = this.lists.query;
    } else {
      const key = flow('key', d.key, tr('keys'));
      this.lists.key = [...key.children];
      stage.append(make('h3', {}, tr('queries')), query, make('h3', {}, tr('keys')), key);
    }
    this.shades = new TokenShades(this.lists);
    stage.append(colorBar(this.scale()));
  },

  scale() {
    const g = group();
    if (g.signed) return scaleOf(unitOf(g), evenly, tr('shadeOfWeight'));
    const shade = t => mixed(bytesOf(ink().back), bytesOf(headColor(0)), 0.8 * t);
    return scaleOf(unitOf(g), {name: 'shade', scale: t => t, color: shade}, tr('shadeOfWeight'));
  },

  reveal(side, index) { this.lists[side][index]?.scrollIntoView({block: 'center'}); },

  refresh(d) { this.shades.show(d); },

  /** The same as lines of text. */
  paint(pen, d) {
    const g = group(), size = 15, line = 26, width = 700;
    const shares = (side, tokens) => {
      const other = side === 'key' ? 'query' : 'key';
      const from = state[other] !== null ? other : g.self && state[side] !== null ? side : null;
      return from === null ? tokens.labels.map(() => ({total: 0})) : sharesOf(weightsOf(d, from, state[from]));
    };
    let y = 8;
    const flow = (side, tokens) => {
      const shade = shares(side, tokens), leftward = tokens.direction === 'rtl';
      let x = 0;
      tokens.labels.forEach((label, i) => {
        const text = fit(label, size, width - 10), wide = widest([text], size, width) + 4;
        if (x > 0 && !tokens.continues(i)) x += 6;
        if (x > 0 && x + wide > width) {
          x = 0;
          y += line;
        }
        const color = shadeOf(shade[i]), left = leftward ? width - x - wide : x,
              looked = state[side] === i || (g.self && (state.query === i || state.key === i));
        if (color) pen.rect(left, y - line / 2 + 3, wide, line - 6, css(color));
        if (looked) pen.frame(left, y - line / 2 + 3, wide, line - 6, ink().strong);
        pen.text(left + 2, y, text, {
          size,
          bold: false,
          color: color                         ? textOn(color) :
              side === 'key' && i === d.hidden ? ink().faint :
                                                 undefined
        });
        x += wide;
      });
      y += line + 6;
    };
    if (!g.self) pen.text(0, y, tr('queries'), {size: 11, color: ink().faint});
    if (!g.self) y += 20;
    flow('query', d.query);
    if (!g.self) {
      pen.text(0, y, tr('keys'), {size: 11, color: ink().faint});
      y += 20;
      flow('key', d.key);
    }
    paintColorBar(pen, 0, y + 4, this.scale());
    return {width, height: y + 16};
  },
};
