// What the reader has chosen. Views read it, `change` writes it and draws again; the address keeps it (address.js).
const state = {
  view: 'story',
  tour: 0,  // its step in the story, from 1; 0: none
  group: 0,
  heads: [],  // numbers of the heads shown, the first of them is the one the inside view takes
  sort: 'layer',
  ownScale: false,  // model view: a scale for each head
  lift: false,      // maps: colours by the root of a weight
  table: false,     // model view: figures instead of maps
  display: 'lines',
  tokenMaps: false,  // model view of a picture: maps of all tokens instead of the picture
  threshold: 0.02,   // lines: the smallest weight that is drawn
  words: false,
  hideSink: false,
  query: null,  // the token looked at, in the numbering of what is shown (words or tokens)
  key: null,
  pinned: false,
  pairing: 'position',  // compare view: by position, or tokens that are equal
  cell: null,           // compare view: the cell that is kept, {which, i, j}
  opened: null,         // inside view: the key whose products are shown
  restoring: false,
  several: false,
  window: {},  // over a large map: {cell, query, key}, the size of a cell and what it begins with
  step: 0,
  stepLayer: -1,  // -1: all layers
};

const VIEWS = ['story', 'model', 'head', 'inside', 'steps', 'compare'];

const group = () => groups[state.group];

/** The ways to show the heads of the group that is open, and which it is. */
function displays() { return group().picture ? ['picture', 'lines', 'map'] : ['lines', 'map', 'text']; }
function display() { return displays().includes(state.display) ? state.display : displays()[0]; }

/** The groups that have a row for each step of the output. */
const stepGroups = () => groups.filter(g => g.stepKeys && data.steps.length > 0);

function hasView(view) {
  if (view === 'inside') return groups.some(g => g.vectors.some(Boolean));
  if (view === 'steps') return stepGroups().length > 0;
  if (view === 'compare') return groups.some(g => g.other);
  return true;
}

/** What is shown of heads: tokens, and a grid for each, after merging and hiding. */
const shown = {
  key: '',
  value: null
};
function derived() {
  if (state.view === 'story') return storyView.derived();
  const g = group();
  const sinkless = state.hideSink && g.shares;
  const id = [g.index, state.heads, state.words, sinkless, g.grids.length].join('|');
  if (shown.key !== id)
    [shown.key, shown.value] = [id, shapedOf(g, state.heads.map(n => g.grids[n]), state.words, sinkless)];
  return shown.value;
}

/** Grids of a group with its pieces merged into `whole` words, and without the sink. */
function shapedOf(g, grids, whole, sinkless) {
  const words = whole && (g.query.split || g.key.split);
  const hidden = sinkless ? g.sink.key : -1;
  if (hidden >= 0) grids = grids.map(grid => hideKey(grid, hidden));
  if (words) grids = grids.map(grid => mergeWords(grid, g.query, g.key));
  return {
    grids,
    mean: meanGrid(grids),
    query: words ? g.query.merged() : g.query,
    key: words ? g.key.merged() : g.key,
    hidden: hidden < 0 ? -1 :
        words          ? g.key.words[hidden] :
                         hidden,
    words,
  };
}

/** What the chosen heads are called in titles. */
function headsName() {
  const g = group();
  if (state.heads.length === 1) return g.headName(state.heads[0]);
  const layers = new Set(state.heads.map(n => g.head(n).layer));
  if (layers.size === 1 && state.heads.length === g.heads) return tr('meanOfLayer', {layer: [...layers][0] + 1});
  return tr('meanOfHeads', {n: state.heads.length});
}

/** The views that this page has: the keys 1, 2, ... open them. */
const shownViews = () => VIEWS.filter(hasView);

function limitState() {
  if (!hasView(state.view)) state.view = 'story';
  if (state.view !== 'story') state.tour = 0;
  // Other measures than weights are for maps of heads.
  if (group().measure && !['model', 'head'].includes(state.view)) state.group = group().measures[0].index;
  if (state.view === 'compare' && !group().other)
    Object.assign(state, {group: groups.findIndex(g => g.other), heads: [], cell: null});
  const g = group();
  const count = g.layers * g.heads;
  state.heads = state.heads.filter(n => n < count);
  if (!state.heads.length) state.heads = [(g.layers - 1) * g.heads];
  if (!g.figureNames.includes(state.sort)) state.sort = 'layer';
  state.step = Math.max(0, Math.min(data.steps.length - 1, state.step));
  if (state.view === 'inside' && !g.hasVectors(g.head(state.heads[0]).layer)) {
    const layer = g.vectors.findIndex(Boolean);
    if (layer >= 0) state.heads = [layer * g.heads];
  }
}

/** What the page opens on, where its address says nothing. */
function openFirst() {
  state.ownScale = state.lift = groups.some(g => g.keys > 64);
  state.threshold = groups.some(g => g.keys > 64) ? 0.05 : 0.02;
  const {asked, group: index, heads, query} = data.opens;
  state.group = asked ? index : storyGroup();
  const g = group();
  if (asked) state.view = heads.length || g.layers * g.heads === 1 ? 'head' : 'model';
  if (heads.length) state.heads = heads;
  if (query >= 0) Object.assign(state, {query, pinned: true});
  if (g.picture)
    state.display = 'picture';
  else if (heads.length > 1 && heads.length === g.heads)
    state.display = 'map';  // a layer: the mean of its heads
}
