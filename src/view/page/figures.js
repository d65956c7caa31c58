// What a head does, in numbers.

/**
 * The six figures of heed's statistics, the sink, which is counted here, and importance, where the page has it. `unit`
 * 'share' is a part of 1.
 */
const FIGURES = {
  diagonal: {column: 0, unit: 'share'},
  previous: {column: 1, unit: 'share'},
  next: {column: 2, unit: 'share'},
  first: {column: 3, unit: 'share'},
  sink: {unit: 'share'},
  entropy: {column: 4, unit: 'nats'},
  distance: {column: 5, unit: 'positions'},
  importance: {unit: 'loss'},
};
const figureLabel = name => tr(`figure_${name}`);

/** The same figures of weights that the reader has changed, by merging words or hiding a key. */
function figuresOf(grid) {
  const {rows, columns} = grid;
  const atOffset = offset => {
    let sum = 0, count = 0;
    for (let i = Math.max(0, -offset); i < rows && i + offset < columns; ++i, ++count) sum += grid.at(i, i + offset);
    return count ? sum / count : 0;
  };
  let first = 0, entropy = 0, distance = 0;
  for (let i = 0; i < rows; ++i)
    grid.each(i, (j, w) => {
      if (j === 0) first += w / rows;
      entropy -= w * Math.log(w) / rows;
      distance += w * Math.abs(i - j) / rows;
    });
  const received = grid.received(), sink = Math.max(0, ...received);
  return {
    diagonal: atOffset(0),
    previous: atOffset(-1),
    next: atOffset(1),
    first,
    sink,
    entropy,
    distance,
    key: received.indexOf(sink)
  };
}

function figureText(value, name) {
  const unit = FIGURES[name].unit;
  if (value === null) return 'NaN';
  return unit === 'share' ? percent(value) : unit === 'nats' ? tr('nats', {value: number(value)}) : number(value);
}

const EXPLAINED = ['sink', 'entropy'];  // words of the trade

/** Figures as a list with bars, of a map of `queries` by `keys`. */
function figureList(figures, queries, keys) {
  const most = {
    nats: Math.log(Math.max(2, keys.count)),
    positions: Math.max(1, keys.count - 1, queries.count - 1),
    share: 1,
    loss: figures.mostImportant
  };
  const known = Object.entries(FIGURES).filter(([name]) => name in figures);
  return make('dl', {class: 'figures'}, ...known.flatMap(([name, {unit}]) => {
    const part = Math.max(0, Math.min(1, (figures[name] ?? 0) / most[unit]));
    const on = name === 'sink' && figures.key >= 0 ? keys.labels[figures.key] : '';
    return [
      make(
          'dt', {title: tr(`about_${name}`)},
          EXPLAINED.includes(name) ? term(name, figureLabel(name)) : figureLabel(name)),
      make(
          'dd', {}, make('span', {class: 'meter', vars: {'--part': `${100 * part}%`}}),
          make('span', {class: 'amount'}, figureText(figures[name], name)),
          on && make('span', {class: 'on', title: on}, ...trParts('onKey', {key: make('bdi', {}, on)})))
    ];
  }));
}
