// The page about a training: curves, and every head as a small map at each moment that was recorded.
const state = {
  group: 0,            // sentence and kind
  moment: 0,
  head: 0,
  axis: 'update',
  logarithmic: null,   // null: as each figure says
  figure: 'entropy',   // the one drawn under the maps
  sorted: false,       // maps in the order of that figure
  ownScale: false,
  lift: true,
  query: null,
  key: null,
  restoring: false,
};

/** The maps of a group at one time. A block begins with six statistics of each head. */
class Moment extends Group {
  constructor(info, place) {
    super(info, info.index);
    this.block = info.moments[place];
  }

  async unpackGrids() {
    const buffer = await unpack(this.block), count = this.layers * this.heads;
    this.statistics = statisticsIn(buffer, count);
    return unpackHeads(buffer.slice(24 * count), count, this);
  }
}

function statisticsIn(buffer, count) {
  const all = new Float32Array(buffer, 0, 6 * count);
  return Array.from({length: count}, (_, n) => all.subarray(6 * n, 6 * n + 6));
}

const MOST_CACHED = 64;
const cache = new Map();
async function momentOf(g, place) {
  const id = `${g.index}|${place}`;
  let moment = cache.get(id);
  cache.delete(id);  // the one used last stands last
  moment ??= new Moment(g, place);
  cache.set(id, moment);
  if (cache.size > MOST_CACHED) cache.delete(cache.keys().next().value);
  await moment.load();
  return moment;
}

/** The statistics of all heads at all moments. */
function historyOf(g) {
  g.history ??= Promise.all(g.moments.map(async block => statisticsIn(await unpack(block), g.layers * g.heads)));
  return g.history;
}

const group = () => groups[state.group];
const updatesOf = g => data.sentences[g.sentence].updates;
const updateText = update => (update === 0 ? 'before training' : `update ${commas(update)}`);

// Updates and minutes that belong together, to find one from the other.
const times = data.figures.flatMap(f => f.curves).flatMap(c => c.updates.map((update, i) => [update, c.minutes[i]])).sort((a, b) => a[0] - b[0]);
function timeOf(update) {
  if (state.axis === 'update') return update;
  if (!times.length) return null;
  const after = times.findIndex(([u]) => u >= update);
  if (after < 0) return times[times.length - 1][1];
  const [u1, m1] = times[after], [u0, m0] = after > 0 ? times[after - 1] : [0, 0];
  return u1 === u0 ? m1 : m0 + (m1 - m0) * (update - u0) / (u1 - u0);
}

// ---------------------------------------------------------------------------------------------- curves

let charts = [];

/** The end of all time axes. */
const endOfTime = () => timeOf(Math.max(0, ...times.map(([update]) => update), ...data.sentences.flatMap(s => s.updates)));

/** Goes to the moment nearest to a place on the time axis. */
function pickTime(x) {
  if (groups.length) change({moment: nearest(updatesOf(group()).map(timeOf), x)});
}

function drawCurves() {
  const logarithmic = figure => state.logarithmic ?? figure.logarithmic;
  charts = data.figures.map(figure => {
    const together = Math.max(1, ...figure.curves.map(c => c.together));
    const note = [figure.note, together > 1 && `Each point is the mean of ${together} reports.`].filter(Boolean).join(' ');
    return chart({name: figure.name, note, logarithmic: logarithmic(figure),
                  curves: figure.curves.map(c => ({name: c.name, xs: state.axis === 'minutes' ? c.minutes : c.updates, values: c.values}))}, {end: endOfTime(), pick: pickTime});
  });
  document.getElementById('curves').replaceChildren(...charts);
  document.getElementById('curve-tools').replaceChildren(
    choice('Time in', [['update', 'updates'], ['minutes', 'minutes']], state.axis, axis => change({axis})),
    choice('Scale', [['', 'by figure'], ['false', 'linear'], ['true', 'logarithmic']], state.logarithmic ?? '', value => change({logarithmic: value === '' ? null : value === 'true'})));
}

// ---------------------------------------------------------------------------------------------- maps

const SHARES = ['diagonal', 'previous', 'next', 'first'];
const OVER_TIME = [...SHARES, 'entropy', 'distance'];

/** The largest that a figure can be. */
function mostOf(g, name) {
  return {nats: Math.log(Math.max(2, g.keys)), positions: Math.max(1, g.keys - 1, g.queries - 1), share: 1}[FIGURES[name].unit];
}

/** A figure of a head over all moments, as a line without axes. */
function spark(values, most, at) {
  const w = 100, h = 20, step = w / Math.max(1, values.length - 1);
  const x = i => (i * step).toFixed(1), y = v => (h - 2 - (h - 4) * Math.min(1, Math.max(0, (v || 0) / most))).toFixed(1);
  return svgElement('svg', {class: 'spark', viewBox: `0 0 ${w} ${h}`, preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    svgElement('line', {x1: 0, x2: w, y1: h - 1, y2: h - 1, stroke: ink().line}),
    svgElement('polyline', {points: values.map((v, i) => `${x(i)},${y(v)}`).join(' '), fill: 'none', stroke: headColor(0), 'stroke-width': 1.5, 'vector-effect': 'non-scaling-stroke'}),
    svgElement('line', {x1: x(at), x2: x(at), y1: 0, y2: h, stroke: ink().faint, 'vector-effect': 'non-scaling-stroke'}));
}

let look = () => {};  // shows a head beside the maps

function drawMaps(moment, history) {
  const g = group(), count = g.layers * g.heads;
  const order = Array.from({length: count}, (_, n) => n);
  const column = FIGURES[state.figure].column, last = moment.statistics;
  if (state.sorted) order.sort((a, b) => last[b][column] - last[a][column] || a - b);
  const top = n => (state.ownScale ? moment.tops[n] || 1 : 1);
  const ratio = Math.max(0.4, Math.min(1.6, g.queries / g.keys));
  const detail = make('aside', {class: 'detail', 'aria-label': 'The head looked at'});
  const tile = n => {
    const canvas = thumbnail(moment.grids[n], top(n));
    canvas.className = 'pixels';
    const {layer, head} = g.head(n);
    const value = figureText(moment, n, state.figure);
    return make('button', {
      type: 'button', class: 'tile', 'data-head': String(n), tabIndex: n === state.head ? 0 : -1,
      'aria-label': `${g.headName(n)} at ${updateText(updatesOf(g)[state.moment])}: ${FIGURES[state.figure].label} ${value}. ${moment.role(n).role}`,
      onclick: () => look(n), onmouseenter: () => look(n), onfocus: () => { if (!state.restoring) look(n); },
    }, canvas, spark(history.map(at => at[n][column]), mostOf(g, state.figure), state.moment),
      make('span', {class: 'caption'}, make('b', {}, `${layer + 1}\u00b7${head + 1}`), make('span', {title: moment.role(n).role}, moment.role(n).tag), make('span', {class: 'amount'}, value)));
  };
  const size = Math.min(g.heads, 12);
  const tiles = make('div', {class: 'tiles', vars: {'--columns': String(size), '--ratio': String(1 / ratio), '--layers': String(state.sorted ? Math.ceil(count / size) : g.layers)}});
  if (state.sorted) {
    tiles.append(make('div', {class: 'layer'}, make('h3', {}, `By ${FIGURES[state.figure].label}`), make('div', {class: 'row'}, ...order.map(tile))));
  } else {
    for (let l = 0; l < g.layers; ++l)
      tiles.append(make('div', {class: 'layer'}, make('h3', {}, g.layers > 1 ? `Layer ${l + 1}` : ''), make('div', {class: 'row'}, ...order.slice(l * g.heads, (l + 1) * g.heads).map(tile))));
  }
  rove(tiles, '.tile', () => {
    const all = [...tiles.querySelectorAll('.tile')];
    return Math.max(1, all.filter(t => t.offsetTop === all[0].offsetTop).length);
  });
  const view = document.getElementById('view');
  view.replaceChildren(make('div', {class: 'model'}, tiles, detail));
  look = n => {
    if (n !== state.head) Object.assign(state, {query: null, key: null});
    state.head = n;
    for (const element of tiles.querySelectorAll('.tile')) element.classList.toggle('now', element.dataset.head === String(n));
    drawDetail(detail, moment, history, n, top(n));
    writeAddress();
  };
  look(state.head);
}

/** One head: its map with the tokens, its figures, and how they changed. */
function drawDetail(detail, moment, history, n, top) {
  const g = group(), d = {mean: moment.grids[n], query: moment.query, key: moment.key};
  const style = getComputedStyle(detail);
  const box = mapSize(d.query, d.key, Math.max(180, detail.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 10));
  const canvas = makeCanvas(box.width, box.height, {class: 'bigmap', id: 'map', tabIndex: 0, role: 'img',
    'aria-label': `Map of ${g.headName(n)}: ${g.queries} queries by ${g.keys} keys. Arrow keys move over the cells.`});
  const readout = make('p', {class: 'readout', id: 'readout'});
  const refresh = () => {
    drawGrid(new CanvasPen(sizeCanvas(canvas, box.width, box.height)), d.mean, d.query, d.key, box, {top, query: state.query, key: state.key});
    const token = (tokens, i) => make('bdi', {class: 'token'}, fit(tokenText(tokens, i), 13, 130));
    if (state.query !== null && state.key !== null)
      readout.replaceChildren(token(d.query, state.query), ' \u2192 ', token(d.key, state.key), ' ', make('b', {}, number(d.mean.at(state.query, state.key))));
    else
      readout.replaceChildren(make('span', {class: 'hint'}, matchMedia('(hover: none)').matches ? 'Tap a cell to see its weight.' : 'Point at a cell to see its weight.'));
  };
  const see = at => {
    Object.assign(state, at ?? {query: null, key: null});
    refresh();
  };
  const cellAt = event => {
    const query = Math.floor((event.offsetY - box.head) / box.cell), key = Math.floor((event.offsetX - box.label) / box.cell);
    return query >= 0 && query < g.queries && key >= 0 && key < g.keys ? {query, key} : null;
  };
  canvas.addEventListener('mousemove', event => see(cellAt(event)));
  canvas.addEventListener('mouseleave', () => { if (document.activeElement !== canvas) see(null); });
  canvas.addEventListener('click', event => see(cellAt(event)));
  canvas.addEventListener('keydown', event => {
    const move = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1]}[event.key];
    if (!move) return;
    event.preventDefault();
    const next = (value, by, count) => Math.max(0, Math.min(count - 1, (value ?? (by ? -1 : 0)) + by));
    see({query: next(state.query, move[0], g.queries), key: next(state.key, move[1], g.keys)});
    say(`${d.query.labels[state.query].slice(0, 80)} attends to ${d.key.labels[state.key].slice(0, 80)}: ${number(d.mean.at(state.query, state.key))}`);
  });
  const xs = updatesOf(g).map(timeOf);
  const overTime = (name, figures, high, text) => chart({name, low: 0, high,
    curves: figures.map(figure => ({name: FIGURES[figure].label, xs, values: history.map(at => at[n][FIGURES[figure].column])}))}, {end: endOfTime(), height: 120, text, pick: pickTime});
  const changes = [overTime('Weight on', SHARES, 1, percent), overTime('Entropy (nats)', ['entropy'], mostOf(g, 'entropy'), number),
                   overTime('Mean distance (positions)', ['distance'], undefined, number)];
  for (const each of changes) each.mark(timeOf(updatesOf(g)[state.moment]));
  const {role} = moment.role(n);
  const focused = document.activeElement === canvasOf(detail);
  detail.replaceChildren(make('h2', {}, g.headName(n)), make('p', {class: 'role'}, role || '\u00a0'), make('div', {class: 'scroll'}, canvas), readout,
                         figureList(moment, n), ...changes);
  refresh();
  if (focused) canvas.focus({preventScroll: true});
}

const canvasOf = detail => detail.querySelector('#map');

// ---------------------------------------------------------------------------------------------- time

let playing = null;
const slider = make('input', {type: 'range', id: 'moment', min: '0', step: '1', 'aria-label': 'Moment of the training', oninput: event => change({moment: Number(event.target.value)})});
const when = make('output', {for: 'moment'});
const playButton = make('button', {type: 'button', id: 'play', onclick: () => play(playing === null)}, 'Play');

function play(on) {
  clearInterval(playing);
  playing = null;
  if (on) {
    if (state.moment === updatesOf(group()).length - 1) change({moment: 0});
    playing = setInterval(() => {
      if (state.moment + 1 >= updatesOf(group()).length) play(false);
      else change({moment: state.moment + 1});
    }, 600);
  }
  playButton.textContent = playing === null ? 'Play' : 'Stop';
}

const step = by => change({moment: state.moment + by});

function drawTime() {
  const updates = updatesOf(group());
  slider.max = String(updates.length - 1);
  slider.value = String(state.moment);
  when.textContent = updateText(updates[state.moment]);
  slider.setAttribute('aria-valuetext', when.textContent);
}

// ---------------------------------------------------------------------------------------------- the frame

function limitState() {
  if (!groups.length) return;
  const g = group();
  state.moment = Math.max(0, Math.min(updatesOf(g).length - 1, state.moment));
  if (state.head >= g.layers * g.heads) state.head = 0;
}

let drawing = 0;
let curvesDrawn = '';
async function draw() {
  const turn = ++drawing;
  const curvesNow = [state.axis, state.logarithmic, theme()].join('|');
  const focus = focusOf(document.activeElement);
  if (curvesDrawn !== curvesNow) drawCurves();
  curvesDrawn = curvesNow;
  if (groups.length) {
    const g = group();
    drawTime();
    const [moment, history] = await Promise.all([momentOf(g, state.moment), historyOf(g)]);
    if (turn !== drawing) return;  // something else was chosen meanwhile
    for (const each of charts) each.mark(timeOf(updatesOf(g)[state.moment]));
    const kinds = groups.filter(other => other.sentence === g.sentence);
    document.getElementById('groups').hidden = kinds.length < 2;
    tabs(document.getElementById('groups'), kinds.map(other => [other.index, other.name]), state.group, index => change({group: index, query: null, key: null}));
    document.getElementById('tools').replaceChildren(...[
      data.sentences.length > 1 && choice('Sentence', data.sentences.map((_, i) => [i, `${i + 1} of ${data.sentences.length}`]), g.sentence, chooseSentence),
      choice('Figure', OVER_TIME.map(name => [name, FIGURES[name].label]), state.figure, figure => change({figure})),
      toggle('in its order', state.sorted, sorted => change({sorted}), 'maps by that figure, largest first'),
      toggle('own scale for each head', state.ownScale, ownScale => change({ownScale})), liftTool(),
      colorBar(state.ownScale ? 'largest of each head' : '1')].filter(Boolean));
    document.getElementById('sentence').replaceChildren(make('bdi', {}, data.sentences[g.sentence].text), ' \u2014 ', g.title);
    drawMaps(moment, history);
  }
  restoreFocus(focus);
}

/** The same kind of attention in another sentence, at the moment nearest to the one shown. */
function chooseSentence(value) {
  const g = group(), update = updatesOf(g)[state.moment];
  const other = groups.find(each => each.sentence === Number(value) && each.name === g.name) ?? groups.find(each => each.sentence === Number(value));
  change({group: other.index, moment: nearest(updatesOf(other), update), query: null, key: null});
}

async function change(changes) {
  Object.assign(state, changes);
  limitState();
  await draw();
  writeAddress();
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const integer = (name, high) => {
    const value = Number(given.get(name));
    return given.has(name) && Number.isInteger(value) && value >= 0 && value <= high ? value : null;
  };
  if (!groups.length) return;
  state.group = integer('group', groups.length - 1) ?? state.group;
  const update = integer('update', Number.MAX_SAFE_INTEGER);
  state.moment = update === null ? updatesOf(group()).length - 1 : nearest(updatesOf(group()), update);
  state.head = integer('head', group().layers * group().heads - 1) ?? state.head;
  if (OVER_TIME.includes(given.get('figure'))) state.figure = given.get('figure');
}

function writeAddress() {
  if (!groups.length) return;
  const out = new URLSearchParams({group: state.group, update: updatesOf(group())[state.moment], head: state.head, figure: state.figure});
  try {
    history.replaceState(null, '', '#' + out);
  } catch {
    // Some places a page is opened from do not let it change its address; nothing else depends on it.
  }
}

function saveCurves() {
  const rows = data.figures.flatMap(f => f.curves.flatMap(c => c.values.map((value, i) => [f.name, c.name, c.updates[i], c.minutes[i], value])));
  save('training.csv', csvText([['figure', 'curve', 'update', 'minutes', 'value'], ...rows]), 'text/csv;charset=utf-8');
}

document.getElementById('title').textContent = document.title = data.title || 'Training';
document.getElementById('text').textContent = data.text;
document.getElementById('facts').replaceChildren(...data.facts.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))));
document.getElementById('maps').hidden = !groups.length;
document.getElementById('time').replaceChildren(
  make('button', {type: 'button', id: 'earlier', 'aria-label': 'the moment before', onclick: () => step(-1)}, '\u25c2'), slider,
  make('button', {type: 'button', id: 'later', 'aria-label': 'the moment behind', onclick: () => step(1)}, '\u25b8'), playButton, when);
document.getElementById('foot').replaceChildren(
  make('div', {class: 'export'}, make('span', {}, 'Save the curves:'), make('button', {type: 'button', 'data-value': 'CSV', onclick: saveCurves}, 'CSV')),
  groups.length ? make('p', {}, 'Weights are stored in 8 bits, relative to the largest of their row.') : '',
  make('p', {class: 'keys'}, 'Keys: ', ...[[', .', 'moments'], ['p', 'play'], ['[ ]', 'heads'], ['{ }', 'layers'], ['arrows', 'move, or read a curve'], ['Enter', 'go to that moment']].flatMap(([key, what]) => [make('kbd', {}, key), ` ${what}  `])));
rove(document.getElementById('groups'), '[role=tab]');

document.addEventListener('keydown', event => {
  if (!groups.length || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'range') return;
  const g = group(), count = g.layers * g.heads;
  const turn = by => look(((state.head + by) % count + count) % count);
  if (event.key === ',') step(-1);
  else if (event.key === '.') step(1);
  else if (event.key === 'p') play(playing === null);
  else if (event.key === '[') turn(-1);
  else if (event.key === ']') turn(1);
  else if (event.key === '{') turn(-g.heads);
  else if (event.key === '}') turn(g.heads);
  else return;
  event.preventDefault();
});

drawAgainWhenNeeded();

if (groups.length) state.moment = updatesOf(groups[0]).length - 1;
readAddress();
change({}).then(() => { document.documentElement.dataset.ready = 'true'; });
