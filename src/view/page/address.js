// The address keeps what was chosen: a link opens the same, and Back goes back.

/** Names in the address of what is on or off. */
const TOGGLES = {
  own: 'ownScale',
  lift: 'lift',
  table: 'table',
  tokens: 'tokenMaps',
  words: 'words',
  sink: 'hideSink',
  several: 'several'
};
let firstState = null;  // what holds where the address says nothing

// Of a typed text in the address: browsers and programs take no addresses of any length.
const MOST_IN_ADDRESS = 4000;

function readAddress() {
  firstState ??= {...state};
  const given = new URLSearchParams(location.hash.slice(1));
  live.turnTo(given.get('text'), given.get('change'));
  const integer = (name, low, high) => {
    const value = Number(given.get(name));
    return given.has(name) && Number.isInteger(value) && value >= low && value <= high ? value : null;
  };
  const oneOf = (name, names, otherwise) => (names.includes(given.get(name)) ? given.get(name) : otherwise);
  const asked = given.has('group') || given.has('heads');
  state.view = oneOf('view', VIEWS, firstState.view);
  state.tour = integer('tour', 1, TOUR_STEPS) ?? 0;
  state.group = integer('group', 0, groups.length - 1) ??
      (state.view === 'story' || !location.hash ? firstState.group : data.opens.group);
  const g = group();
  const heads = (given.get('heads') ?? '').split(',').filter(Boolean).map(Number);
  const known = heads.length && heads.every(n => Number.isInteger(n) && n >= 0 && n < g.layers * g.heads);
  state.heads = known ? heads : asked ? [] : firstState.heads;
  state.query = integer('query', 0, g.queries - 1);
  state.key = integer('key', 0, g.keys - 1);
  state.opened = integer('open', 0, g.keys - 1);
  if (!location.hash) state.query = firstState.query;
  state.pinned = state.query !== null || state.key !== null;
  state.step = integer('step', 0, data.steps.length - 1) ?? 0;
  state.stepLayer = integer('layer', -1, 1 << 20) ?? -1;
  state.display = oneOf('display', ['picture', 'lines', 'map', 'text'], firstState.display);
  state.sort = oneOf('sort', ['layer', ...Object.keys(FIGURES)], firstState.sort);
  state.pairing = oneOf('pairing', ['position', 'tokens'], firstState.pairing);
  const threshold = Number(given.get('threshold'));
  state.threshold = given.has('threshold') && threshold >= 0 && threshold <= 1 ? threshold : firstState.threshold;
  for (const [name, at] of Object.entries(TOGGLES))
    state[at] = given.has(name) ? given.get(name) === '1' : firstState[at];
  const zoom = Number(given.get('zoom')), at = /^(\d+),(\d+)$/.exec(given.get('at') ?? '');
  state.window = zoom > 0 && at ? {cell: zoom, query: Number(at[1]), key: Number(at[2])} : {};
  const cell = /^(A|B|difference),(\d+),(\d+)$/.exec(given.get('cell') ?? '');
  state.cell = cell && {which: cell[1], i: Number(cell[2]), j: Number(cell[3])};
}

function addressOf() {
  const out = new URLSearchParams({view: state.view, group: state.group, heads: state.heads.join(',')});
  const {text, change: heads} = live.asked();
  if (text !== null && text.length <= MOST_IN_ADDRESS) out.set('text', text);
  if (heads) out.set('change', heads);
  if (state.view === 'head') out.set('display', display());
  if (state.view === 'head' && display() === 'map' && state.window.cell) {
    out.set('zoom', state.window.cell.toFixed(2));
    out.set('at', [state.window.query, state.window.key].map(Math.round).join());
  }
  if (state.tour) out.set('tour', state.tour);
  if (state.pinned && state.query !== null) out.set('query', state.query);
  if (state.pinned && state.key !== null) out.set('key', state.key);
  if (state.view === 'inside' && state.opened !== null) out.set('open', state.opened);
  if (state.view === 'steps') {
    out.set('step', state.step);
    if (state.stepLayer >= 0) out.set('layer', state.stepLayer);
  }
  if (state.view === 'compare' && state.cell) out.set('cell', `${state.cell.which},${state.cell.i},${state.cell.j}`);
  for (const name of ['threshold', 'sort', 'pairing'])
    if (state[name] !== firstState[name]) out.set(name, state[name]);
  for (const [name, at] of Object.entries(TOGGLES))
    if (state[at] !== firstState[at]) out.set(name, state[at] ? '1' : '0');
  return '#' + out.toString().replaceAll('%2C', ',');
}

/** Where the reader is: Back leads from one place to the one before. */
const placeOf =
    () => [state.view, state.tour, state.group, state.heads.join(), display(), ...Object.values(live.asked())].join(
        '|');
let place = null, waiting = null;

/** `how`: 'push' a new place, 'replace' the address, or 'later' while something is dragged. */
function writeAddress(how = 'replace') {
  clearTimeout(waiting);
  if (how === 'later') {
    waiting = setTimeout(writeAddress, 300);  // browsers refuse many changes in a row
    return;
  }
  place = placeOf();
  if (live.awaited !== null && how !== 'push') return;  // the address says more than the page can show yet
  try {
    history[how === 'push' ? 'pushState' : 'replaceState'](null, '', addressOf());
  } catch {
    // Some places a page is opened from do not let it change its address; nothing else depends on it.
  }
}
