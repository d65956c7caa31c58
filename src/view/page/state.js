// What the reader has chosen. Views read it, `change` writes it and draws again; the address keeps it.
const state = {
  view: 'model',
  group: 0,
  heads: [],         // numbers of the heads shown, the first of them is the one the inside view takes
  sort: 'layer',
  ownScale: false,   // model view: a scale for each head
  lift: false,       // maps: colours by the root of a weight
  table: false,      // model view: figures instead of maps
  display: 'lines',
  threshold: 0.02,
  words: false,
  hideSink: false,
  query: null,       // the token looked at, in the numbering of what is shown (words or tokens)
  key: null,
  pinned: false,
  pairing: 'position',  // compare view: by position, or tokens that are equal
  cell: null,        // compare view: the cell that is kept, {which, i, j}
  restoring: false,
  several: false,
  step: 0,
  stepLayer: -1,     // -1: all layers
};

const VIEWS = [['model', 'Model'], ['head', 'Head'], ['inside', 'Inside'], ['steps', 'Steps'], ['compare', 'Compare']];

const group = () => groups[state.group];

/** The groups that have a row for each step of the output. */
const stepGroups = () => groups.filter(g => g.stepKeys && data.steps.length > 0);

function hasView(view) {
  if (view === 'inside') return groups.some(g => g.vectors.some(Boolean));
  if (view === 'steps') return stepGroups().length > 0;
  if (view === 'compare') return groups.some(g => g.other);
  return true;
}

/** What the head view shows: tokens, and a grid for each chosen head, after merging and hiding. */
const shown = {key: '', value: null};
function derived() {
  const g = group();
  const words = state.words && (g.query.split || g.key.split);
  const id = [g.index, state.heads, words, state.hideSink, g.grids.length].join('|');
  if (shown.key === id) return shown.value;
  const hidden = state.hideSink ? g.sink.key : -1;
  let grids = state.heads.map(n => g.grids[n]);
  if (hidden >= 0) grids = grids.map(grid => hideKey(grid, hidden));
  if (words) grids = grids.map(grid => mergeWords(grid, g.query, g.key));
  shown.key = id;
  shown.value = {
    grids,
    mean: meanGrid(grids),
    query: words ? g.query.merged() : g.query,
    key: words ? g.key.merged() : g.key,
    hidden: hidden < 0 ? -1 : words ? g.key.words[hidden] : hidden,
    words,
  };
  shown.value.top = Math.max(1e-9, ...grids.map(grid => grid.largest()));
  return shown.value;
}

/** What the chosen heads are called in titles. */
function headsName() {
  const g = group();
  if (state.heads.length === 1) return g.headName(state.heads[0]);
  const layers = new Set(state.heads.map(n => g.head(n).layer));
  if (layers.size === 1 && state.heads.length === g.heads) return `layer ${[...layers][0] + 1}, mean of all heads`;
  return `mean of ${state.heads.length} heads`;
}

function limitState() {
  if (!hasView(state.view)) state.view = 'model';
  if (state.view === 'compare' && !group().other) Object.assign(state, {group: groups.findIndex(g => g.other), heads: [], cell: null});
  const g = group();
  const count = g.layers * g.heads;
  state.heads = state.heads.filter(n => n < count);
  if (!state.heads.length) state.heads = [(g.layers - 1) * g.heads];
  state.step = Math.max(0, Math.min(data.steps.length - 1, state.step));
  if (state.view === 'inside' && !g.hasVectors(g.head(state.heads[0]).layer)) {
    const layer = g.vectors.findIndex(Boolean);
    if (layer >= 0) state.heads = [layer * g.heads];
  }
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const integer = (name, low, high) => {
    const value = Number(given.get(name));
    return given.has(name) && Number.isInteger(value) && value >= low && value <= high ? value : null;
  };
  if (VIEWS.some(([name]) => name === given.get('view'))) state.view = given.get('view');
  state.group = integer('group', 0, groups.length - 1) ?? state.group;
  const g = group();
  const heads = (given.get('heads') ?? '').split(',').filter(Boolean).map(Number);
  if (heads.length && heads.every(n => Number.isInteger(n) && n >= 0 && n < g.layers * g.heads)) state.heads = heads;
  state.query = integer('query', 0, g.queries - 1);
  state.pinned = state.query !== null;
  state.step = integer('step', 0, data.steps.length - 1) ?? 0;
  if (['lines', 'map', 'text'].includes(given.get('display'))) state.display = given.get('display');
}

function writeAddress() {
  const out = new URLSearchParams({view: state.view, group: state.group, heads: state.heads.join(',')});
  if (state.view === 'head') out.set('display', state.display);
  if (state.query !== null && state.pinned) out.set('query', state.query);
  if (state.view === 'steps') out.set('step', state.step);
  try {
    history.replaceState(null, '', '#' + out.toString().replaceAll('%2C', ','));
  } catch {
    // Some places a page is opened from do not let it change its address; nothing else depends on it.
  }
}

