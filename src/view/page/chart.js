// Curves over the time of a training, as SVG in the page.
const CHART = {
  width: 400,
  left: 44,
  right: 10,
  top: 8,
  bottom: 20
};

function svgElement(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'vars')
      for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else
      element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** About `count` round numbers from low to high. */
function ticks(low, high, count) {
  const raw = (high - low) / count, size = 10 ** Math.floor(Math.log10(raw));
  const step = size * [1, 2, 5, 10].find(m => m * size >= raw * 0.999);
  const out = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; ++n) out.push(n * step);
  return out;
}

/** 1, 2 and 5 times powers of ten, or powers alone where there are many. */
function logTicks(low, high) {
  const wide = Math.log10(high / low) > 2.5;
  const out = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const m of wide ? [1] : [1, 2, 5]) {
      const value = m * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) out.push(value);
    }
  return out;
}

const timeText = x =>
    (state.axis === 'minutes' ? tr('minutes', {value: number(x)}) : tr('update', {value: counted(Math.round(x))}));
const tickText = x =>
    (Math.abs(x) >= 1000 ? counted(Math.round(x)) :
         Math.abs(x) >= 0.001 || x === 0 ?
                           format({maximumSignificantDigits: 4, useGrouping: false}).format(x) :
                           format({notation: 'scientific', maximumSignificantDigits: 3}).format(x).toLowerCase());

/** The place of `x` in ascending numbers that is nearest. */
function nearest(numbers, x) {
  let best = 0;
  numbers.forEach((n, i) => {
    if (Math.abs(n - x) <= Math.abs(numbers[best] - x)) best = i;
  });
  return best;
}

/**
 * figure: {name, note, curves: [{name, xs, values}], logarithmic, low, high}; low and high are the range where it is
 * known. The time axis ends at `end`. `text` writes a value, pick(x) is called for a place that was clicked.
 * chart.mark(x) moves the line that says which moment the maps are of.
 */
function chart(figure, {end, height = 190, text = number, pick}) {
  const {width, left, right, top, bottom} = CHART;
  const curves = figure.curves.map((curve, n) => ({...curve, color: headColor(n)}))
                     .map(curve => (figure.logarithmic ? {...curve, keep: curve.values.map(v => v > 0)} : curve))
                     .map(
                         curve =>
                             (curve.keep ? {
                               ...curve,
                               xs: curve.xs.filter((_, i) => curve.keep[i]),
                               values: curve.values.filter((_, i) => curve.keep[i])
                             } :
                                           curve));
  const all = curves.flatMap(curve => curve.values),
        xs = [...new Set(curves.flatMap(curve => curve.xs))].sort((a, b) => a - b);
  const legend = make('div', {class: 'legend'});
  const box = make('figure', {class: 'chart'}, make('h3', {}, figure.name), legend);
  box.mark = () => {};
  if (!xs.length) {
    box.append(make('p', {class: 'none'}, tr('nothingYet')));
    return box;
  }
  let low = figure.low ?? Math.min(...all), high = figure.high ?? Math.max(...all);
  if (figure.logarithmic)
    [low, high] = low === high ? [low / 2, high * 2] : [low / 1.05, high * 1.05];
  else if (low === high)
    [low, high] = [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  const pad = figure.logarithmic || figure.low !== undefined ? 0 : 0.04 * (high - low);
  if (low !== 0) low -= pad;
  high += pad;
  const scale = figure.logarithmic ? Math.log : v => v;
  const first = 0, last = end || 1;
  const across = x => left + (x - first) / (last - first) * (width - left - right);
  const down = v => height - bottom - (scale(v) - scale(low)) / (scale(high) - scale(low)) * (height - top - bottom);

  const svg = svgElement('svg', {
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    tabindex: 0,
    'aria-label': tr('chartLabel', {
      name: figure.name,
      curves: curves.filter(c => c.values.length)
                  .map(c => tr('atLast', {name: given(c.name), value: text(c.values.at(-1))}))
                  .join(tr('listSeparator'))
    })
  });
  for (const v of figure.logarithmic ? logTicks(low, high) : ticks(low, high, height > 150 ? 4 : 2))
    svg.append(
        svgElement('line', {class: 'grid', x1: left, x2: width - right, y1: down(v), y2: down(v)}),
        svgElement('text', {x: left - 6, y: down(v) + 3.5, 'text-anchor': 'end'}, tickText(v)));
  const times = ticks(first, last, 5);
  times.forEach(
      x => svg.append(svgElement(
          'text', {
            x: across(x),
            y: height - 5,
            'text-anchor': across(x) > width - 40 ? 'end' :
                across(x) < left + 12             ? 'start' :
                                                    'middle'
          },
          x === times.at(-1) && state.axis === 'minutes' ? tr('minutes', {value: tickText(x)}) : tickText(x))));
  const now = svgElement('line', {class: 'now', y1: top, y2: height - bottom, visibility: 'hidden'});
  const cross = svgElement('line', {class: 'cross', y1: top, y2: height - bottom, visibility: 'hidden'});
  svg.append(now, cross);
  const dots = curves.map(curve => {
    const vars = {'--color': curve.color};
    svg.append(svgElement('polyline', {
      class: 'line',
      vars,
      'data-curve': curve.name,
      points: curve.xs.map((x, i) => `${across(x).toFixed(1)},${down(curve.values[i]).toFixed(1)}`).join(' ')
    }));
    if (curve.xs.length <= 40)
      for (const [i, x] of curve.xs.entries())
        svg.append(svgElement('circle', {
          class: 'dot',
          vars,
          cx: across(x).toFixed(1),
          cy: down(curve.values[i]).toFixed(1),
          r: curve.xs.length === 1 ? 3 : 2
        }));
    return svgElement('circle', {class: 'dot', vars, r: 4, visibility: 'hidden'});
  });
  svg.append(...dots);

  let at = null;  // the place in xs that is read
  const read = index => {
    at = index;
    const x = index === null ? null : xs[index];
    cross.setAttribute('visibility', x === null ? 'hidden' : 'visible');
    if (x !== null)
      for (const name of ['x1', 'x2']) cross.setAttribute(name, across(x).toFixed(1));
    const shown = curves.filter(curve => curve.xs.length).map(curve => {
      const i = x === null ? curve.xs.length - 1 : nearest(curve.xs, x);
      const dot = dots[curves.indexOf(curve)];
      dot.setAttribute('visibility', x === null ? 'hidden' : 'visible');
      dot.setAttribute('cx', across(curve.xs[i]).toFixed(1));
      dot.setAttribute('cy', down(curve.values[i]).toFixed(1));
      return [curve, curve.values[i]];
    });
    legend.replaceChildren(
        ...shown.map(
            ([curve, value]) => make(
                'span', {class: 'swatch', vars: {'--color': curve.color}},
                curves.length > 1 ? `${given(curve.name)} ` : '', make('b', {}, text(value)))),
        make('span', {class: 'at'}, x === null ? tr('last') : timeText(x)));
    return shown;
  };
  const placeOf = event => {
    const area = svg.getBoundingClientRect();
    const x =
        first + ((event.clientX - area.left) / area.width * width - left) / (width - left - right) * (last - first);
    return nearest(xs, x);
  };
  svg.addEventListener('pointermove', event => read(placeOf(event)));
  svg.addEventListener('pointerleave', () => read(null));
  svg.addEventListener('blur', () => read(null));
  svg.addEventListener('click', event => pick?.(xs[placeOf(event)]));
  svg.addEventListener('keydown', event => {
    const to = {ArrowLeft: (at ?? xs.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: xs.length - 1}[event.key];
    if (event.key === 'Enter' && at !== null) pick?.(xs[at]);
    if (to === undefined) return;
    event.preventDefault();
    const shown = read(Math.max(0, Math.min(xs.length - 1, to)));
    const values = shown.map(([curve, value]) => `${given(curve.name)} ${text(value)}`);
    say(`${timeText(xs[at])}: ${values.join(tr('listSeparator'))}`);
  });
  box.append(svg);
  if (figure.note) box.append(make('p', {class: 'note'}, figure.note));
  box.mark = x => {
    now.setAttribute('visibility', x === null ? 'hidden' : 'visible');
    if (x !== null)
      for (const name of ['x1', 'x2']) now.setAttribute(name, across(x).toFixed(1));
  };
  read(null);
  return box;
}
