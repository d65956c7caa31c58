// The page about a training: curves, and every head as a small map at each moment that was recorded.
const state = {
  group: 0,  // sentence and kind
  moment: 0,
  since: null,  // the update whose maps are taken from those of the moment; null: none
  head: 0,
  axis: 'update',
  logarithmic: null,  // null: as each figure says
  figure: 'entropy',  // the one drawn under the maps
  sorted: false,      // maps in the order of that figure
  ownScale: false,
  lift: true,
  query: null,
  key: null,
  window: {},  // over the map of a long sentence
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
    return this.headsOf(this.block, buffer.slice(24 * count), count);
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

/**
 * What is shown of heads: {grids, palette, topOf(n)}, the weights of a moment, or their difference to those it had
 * before or has later, `was`.
 */
function shownOf(g, moment, was) {
  if (!was)
    return {
      grids: moment.grids,
      palette: moment.palette,
      topOf: n => (state.ownScale ? moment.tops[n] || 1 : 1),
      scale: scaleOf(state.ownScale ? tr('largestOfHead') : '1')
    };
  const pairs = count => Array.from({length: count}, (_, i) => [i, i]);
  const grids = moment.grids.map((grid, n) => differenceGrid(was.grids[n], grid, pairs(g.queries), pairs(g.keys)));
  const tops = grids.map(grid => grid.largest()), top = Math.max(1e-9, ...tops);
  return {
    grids,
    palette: signed,
    topOf: n => (state.ownScale ? tops[n] || 1 : top),
    scale: scaleOf(state.ownScale ? tr('largestOfHead') : top, signed, tr('colorOfDifference'))
  };
}

/** The statistics of all heads at all moments. */
function historyOf(g) {
  g.history ??= Promise.all(g.moments.map(async block => statisticsIn(await unpack(block), g.layers * g.heads)));
  return g.history;
}

const group = () => groups[state.group];
const updatesOf = g => data.sentences[g.sentence].updates;
const updateText = update => (update === 0 ? tr('beforeTraining') : tr('update', {value: counted(update)}));

// Updates and minutes that belong together, to find one from the other.
const times = data.figures.flatMap(f => f.curves)
                  .flatMap(c => c.updates.map((update, i) => [update, c.minutes[i]]))
                  .sort((a, b) => a[0] - b[0]);
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
const endOfTime = () =>
    timeOf(Math.max(0, ...times.map(([update]) => update), ...data.sentences.flatMap(s => s.updates)));

/** Goes to the moment nearest to a place on the time axis. */
function pickTime(x) {
  if (groups.length) change({moment: nearest(updatesOf(group()).map(timeOf), x)});
}

function drawCurves() {
  const logarithmic = figure => state.logarithmic ?? figure.logarithmic;
  charts = data.figures.map(figure => {
    const together = Math.max(1, ...figure.curves.map(c => c.together));
    const note = [given(figure.note), together > 1 && tr('together', {count: together})].filter(Boolean).join(' ');
    return chart(
        {
          name: given(figure.name),
          note,
          logarithmic: logarithmic(figure),
          curves: figure.curves.map(
              c => ({name: c.name, xs: state.axis === 'minutes' ? c.minutes : c.updates, values: c.values}))
        },
        {end: endOfTime(), pick: pickTime});
  });
  document.getElementById('curves').replaceChildren(...charts);
  document.getElementById('curve-tools')
      .replaceChildren(
          choice(
              tr('timeIn'), [['update', tr('timeInUpdates')], ['minutes', tr('timeInMinutes')]], state.axis,
              axis => change({axis})),
          choice(
              tr('axisScale'),
              [['', tr('scaleByFigure')], ['false', tr('scaleLinear')], ['true', tr('scaleLogarithmic')]],
              state.logarithmic ?? '', value => change({logarithmic: value === '' ? null : value === 'true'})));
}

// ---------------------------------------------------------------------------------------------- maps

const SHARES = ['diagonal', 'previous', 'next', 'first'];
const OVER_TIME = [...SHARES, 'entropy', 'distance'];

/** The largest that a figure can be. */
function mostOf(g, name) {
  return {
    nats: Math.log(Math.max(2, g.keys)),
    positions: Math.max(1, g.keys - 1, g.queries - 1),
    share: 1
  }[FIGURES[name].unit];
}

/** A figure of a head over all moments, as a line without axes. */
function spark(values, most, at) {
  const w = 100, h = 20, step = w / Math.max(1, values.length - 1);
  const x = i => (i * step).toFixed(1),
        y = v => (h - 2 - (h - 4) * Math.min(1, Math.max(0, (v || 0) / most))).toFixed(1);
  return svgElement(
      'svg', {class: 'spark', viewBox: `0 0 ${w} ${h}`, preserveAspectRatio: 'none', 'aria-hidden': 'true'},
      svgElement('line', {x1: 0, x2: w, y1: h - 1, y2: h - 1, stroke: ink().line}), svgElement('polyline', {
        points: values.map((v, i) => `${x(i)},${y(v)}`).join(' '),
        fill: 'none',
        stroke: headColor(0),
        'stroke-width': 1.5,
        'vector-effect': 'non-scaling-stroke'
      }),
      svgElement(
          'line', {x1: x(at), x2: x(at), y1: 0, y2: h, stroke: ink().faint, 'vector-effect': 'non-scaling-stroke'}));
}

let look = () => {};  // shows a head beside the maps

function drawMaps(moment, history, was, shown) {
  const g = group(), count = g.layers * g.heads;
  const order = Array.from({length: count}, (_, n) => n);
  const column = FIGURES[state.figure].column, last = moment.statistics;
  if (state.sorted) order.sort((a, b) => last[b][column] - last[a][column] || a - b);
  const ratio = Math.max(0.4, Math.min(1.6, g.queries / g.keys));
  const detail = make('aside', {class: 'detail', 'aria-label': tr('headLookedAt')});
  const tile = n => {
    const canvas = thumbnail(shown.grids[n], shown.topOf(n), 160, shown.palette);
    canvas.className = 'pixels';
    const {layer, head} = g.head(n);
    const value = figureText(moment.figure(n, state.figure), state.figure);
    return make(
        'button', {
          type: 'button',
          class: 'tile',
          'data-head': String(n),
          tabIndex: n === state.head ? 0 : -1,
          'aria-label': tr('tileLabel', {
            name: g.headName(n),
            moment: updateText(updatesOf(g)[state.moment]),
            figure: figureLabel(state.figure),
            value,
            role: moment.role(n).role
          }),
          onclick: () => look(n),
          onmouseenter: () => look(n),
          onfocus: () => {
            if (!state.restoring) look(n);
          },
        },
        canvas, spark(history.map(at => at[n][column]), mostOf(g, state.figure), state.moment),
        make(
            'span', {class: 'caption'}, make('b', {}, `${layer + 1}\u00b7${head + 1}`),
            make('span', {title: moment.role(n).role}, moment.role(n).tag), make('span', {class: 'amount'}, value)));
  };
  const size = Math.min(g.heads, 12);
  const tiles = make('div', {
    class: 'tiles',
    vars: {
      '--columns': String(size),
      '--ratio': String(1 / ratio),
      '--layers': String(state.sorted ? Math.ceil(count / size) : g.layers)
    }
  });
  if (state.sorted) {
    tiles.append(make(
        'div', {class: 'layer'}, make('h3', {}, tr('inOrderOf', {figure: figureLabel(state.figure)})),
        make('div', {class: 'row'}, ...order.map(tile))));
  } else {
    for (let l = 0; l < g.layers; ++l)
      tiles.append(make(
          'div', {class: 'layer'}, make('h3', {}, g.layers > 1 ? tr('layerHeading', {layer: l + 1}) : ''),
          make('div', {class: 'row'}, ...order.slice(l * g.heads, (l + 1) * g.heads).map(tile))));
  }
  rove(tiles, '.tile', () => {
    const all = [...tiles.querySelectorAll('.tile')];
    return Math.max(1, all.filter(t => t.offsetTop === all[0].offsetTop).length);
  });
  const view = document.getElementById('view');
  view.replaceChildren(make('div', {class: 'model'}, tiles, detail));
  const show = n => {
    for (const element of tiles.querySelectorAll('.tile'))
      element.classList.toggle('now', element.dataset.head === String(n));
    drawDetail(detail, moment, history, n, was, shown);
  };
  look = n => {
    if (n !== state.head) Object.assign(state, {query: null, key: null});
    state.head = n;
    show(n);
    writeAddress();
  };
  show(state.head);
}

/** One head: its map with the tokens, its figures, and how they changed. */
function drawDetail(detail, moment, history, n, was, shown) {
  const g = group(), d = {mean: shown.grids[n], query: moment.query, key: moment.key}, top = shown.topOf(n);
  const style = getComputedStyle(detail);
  const space = detail.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const map = new MapCanvas(
      d.mean, d.query, d.key, mapSize(d.query, d.key, Math.max(180, space)), {top, palette: shown.palette},
      {id: 'map', 'aria-label': tr('mapLabel', {name: g.headName(n), queries: g.queries, keys: g.keys})},
      {room: {width: Math.max(180, space), height: 380}, place: state.window});
  const place = make('div');
  const canvas = map.element;
  const readout = make('p', {class: 'readout', id: 'readout'});
  const refresh = () => {
    map.show(state);
    const token = (tokens, i) => make('bdi', {class: 'token'}, fit(tokenText(tokens, i), 13, 130));
    if (state.query !== null && state.key !== null)
      readout.replaceChildren(
          token(d.query, state.query), ' \u2192 ', token(d.key, state.key), ' ',
          make('b', {}, weightText(d.mean.at(state.query, state.key))));
    else
      readout.replaceChildren(
          make('span', {class: 'hint'}, tr(matchMedia('(hover: none)').matches ? 'hintTapWeight' : 'hintPointWeight')));
  };
  const see = at => {
    Object.assign(state, at && at.query !== null && at.key !== null ? at : {query: null, key: null});
    refresh();
  };
  canvas.addEventListener('mousemove', event => see(map.cellAt(event)));
  canvas.addEventListener('mouseleave', () => {
    if (document.activeElement !== canvas) see(null);
  });
  canvas.addEventListener('click', event => see(map.cellAt(event)));
  canvas.addEventListener('keydown', event => {
    const at = map.moved(event, state);
    if (!at) return;
    see(at);
    say(map.sentence(at));
  });
  const xs = updatesOf(g).map(timeOf);
  const overTime = (name, figures, high, text) => chart(
      {
        name,
        low: 0,
        high,
        curves: figures.map(
            figure => ({name: figureLabel(figure), xs, values: history.map(at => at[n][FIGURES[figure].column])}))
      },
      {end: endOfTime(), height: 120, text, pick: pickTime});
  const changes = [
    overTime(tr('weightOn'), SHARES, 1, percent),
    overTime(tr('entropyInNats'), ['entropy'], mostOf(g, 'entropy'), number),
    overTime(tr('distanceInPositions'), ['distance'], undefined, number)
  ];
  for (const each of changes) each.mark(timeOf(updatesOf(g)[state.moment]));
  // Of a difference both sides, below it.
  const sides = was ? [[state.since, was], [updatesOf(g)[state.moment], moment]] : [];
  const side = ([update, of]) => {
    const canvas = thumbnail(of.grids[n], state.ownScale ? of.tops[n] || 1 : 1, 160, of.palette);
    canvas.className = 'pixels';
    canvas.style.setProperty('--shape', `${g.keys} / ${g.queries}`);
    return make('figure', {class: 'side-map'}, make('figcaption', {}, updateText(update)), canvas);
  };
  const {role} = moment.role(n);
  const focused = document.activeElement === canvasOf(detail);
  detail.replaceChildren(
      make('h2', {}, g.headName(n)), make('p', {class: 'role'}, role || '\u00a0'), place, readout,
      was ? make('div', {class: 'side-maps'}, ...sides.map(side)) : '',
      figureList(moment.figures(n), moment.query, moment.key), ...changes);
  map.showIn(place);
  refresh();
  if (focused) canvas.focus({preventScroll: true});
}

const canvasOf = detail => detail.querySelector('#map');

// ---------------------------------------------------------------------------------------------- time

let playing = null;
const slider = make(
    'input',
    {type: 'range', id: 'moment', min: '0', step: '1', oninput: event => change({moment: Number(event.target.value)})});
const when = make('output', {for: 'moment'
});
const playButton = make('button', {type: 'button', id: 'play', onclick: () => play(playing === null)});

function play(on) {
  clearInterval(playing);
  playing = null;
  if (on) {
    if (state.moment === updatesOf(group()).length - 1) change({moment: 0});
    playing = setInterval(() => {
      if (state.moment + 1 >= updatesOf(group()).length)
        play(false);
      else
        change({moment: state.moment + 1});
    }, 600);
  }
  namePlayButton();
}

function namePlayButton() { playButton.textContent = tr(playing === null ? 'playMoments' : 'stopMoments'); }

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
  if (!updatesOf(g).includes(state.since)) state.since = null;
  if (state.query >= g.queries || state.key >= g.keys) Object.assign(state, {query: null, key: null});
}

let drawing = 0;
let curvesDrawn = '';
async function draw() {
  const turn = ++drawing;
  const curvesNow = [state.axis, state.logarithmic, theme(), language].join('|');
  const focus = focusOf(document.activeElement);
  if (curvesDrawn !== curvesNow) drawCurves();
  curvesDrawn = curvesNow;
  if (groups.length) {
    const g = group();
    drawTime();
    const [moment, history, was] = await Promise.all([
      momentOf(g, state.moment), historyOf(g),
      state.since === null ? null : momentOf(g, updatesOf(g).indexOf(state.since))
    ]);
    if (turn !== drawing) return;  // something else was chosen meanwhile
    for (const each of charts) each.mark(timeOf(updatesOf(g)[state.moment]));
    const shown = shownOf(g, moment, was);
    const kinds = groups.filter(other => other.sentence === g.sentence);
    document.getElementById('groups').hidden = kinds.length < 2;
    tabs(
        document.getElementById('groups'), kinds.map(other => [other.index, other.shownName]), state.group,
        index => change({group: index, query: null, key: null, window: {}}));
    document.getElementById('tools').replaceChildren(
        ...[data.sentences.length > 1 &&
                choice(
                    tr('sentence'),
                    data.sentences.map((_, i) => [i, tr('sentenceOf', {n: i + 1, count: data.sentences.length})]),
                    g.sentence, chooseSentence),
            choice(
                tr('figure'), OVER_TIME.map(name => [name, figureLabel(name)]), state.figure,
                figure => change({figure})),
            toggle(tr('inItsOrder'), state.sorted, sorted => change({sorted}), tr('inItsOrderWhy')),
            updatesOf(g).length > 1 &&
                choice(
                    tr('differenceTo'),
                    [['', tr('nothing')], ...updatesOf(g).map(update => [update, updateText(update)])],
                    state.since ?? '', update => change({since: update === '' ? null : Number(update)})),
            toggle(tr('ownScale'), state.ownScale, ownScale => change({ownScale})), liftTool(), colorBar(shown.scale)]
            .filter(Boolean));
    document.getElementById('sentence')
        .replaceChildren(make('bdi', {}, data.sentences[g.sentence].text), ' \u2014 ', given(g.title));
    drawMaps(moment, history, was, shown);
  }
  restoreFocus(focus);
}

/** The same kind of attention in another sentence, at the moment nearest to the one shown. */
function chooseSentence(value) {
  const g = group(), update = updatesOf(g)[state.moment];
  const other = groups.find(each => each.sentence === Number(value) && each.name === g.name) ??
      groups.find(each => each.sentence === Number(value));
  change({group: other.index, moment: nearest(updatesOf(other), update), query: null, key: null, window: {}});
}

/** `told`: by the address, which then has no place to go back to. */
async function change(changes, {told = false} = {}) {
  Object.assign(state, changes);
  limitState();
  await draw();
  writeAddress(told || placeOf() === place ? 'replace' : 'push');
}

/** Where the reader is: Back leads from one place to the one before. Moments and heads are passed through. */
const placeOf = () => [state.group, state.since].join('|');
let place = null;

/** What is on or off in the address, and what holds where it says nothing. */
const SWITCHES = {
  sorted: false,
  ownScale: false,
  lift: true
};

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
  state.since = integer('since', Number.MAX_SAFE_INTEGER);
  if (OVER_TIME.includes(given.get('figure'))) state.figure = given.get('figure');
  state.axis = given.get('axis') === 'minutes' ? 'minutes' : 'update';
  state.logarithmic = {linear: false, logarithmic: true}[given.get('scale')] ?? null;
  for (const [name, usual] of Object.entries(SWITCHES)) state[name] = given.has(name) ? given.get(name) === '1' : usual;
}

/** `how`: 'push' a new place, or 'replace' the address. */
function writeAddress(how = 'replace') {
  if (!groups.length) return;
  place = placeOf();
  const out = new URLSearchParams(
      {group: state.group, update: updatesOf(group())[state.moment], head: state.head, figure: state.figure});
  if (state.since !== null) out.set('since', state.since);
  if (state.axis === 'minutes') out.set('axis', 'minutes');
  if (state.logarithmic !== null) out.set('scale', state.logarithmic ? 'logarithmic' : 'linear');
  for (const [name, usual] of Object.entries(SWITCHES))
    if (state[name] !== usual) out.set(name, state[name] ? '1' : '0');
  try {
    history[how === 'push' ? 'pushState' : 'replaceState'](null, '', '#' + out);
  } catch {
    // Some places a page is opened from do not let it change its address; nothing else depends on it.
  }
}

function saveCurves() {
  const rows = data.figures.flatMap(
      f => f.curves.flatMap(c => c.values.map((value, i) => [f.name, c.name, c.updates[i], c.minutes[i], value])));
  save('training.csv', csvText([['figure', 'curve', 'update', 'minutes', 'value'], ...rows]), 'text/csv;charset=utf-8');
}

/** What stands around the maps and is not drawn again. */
function frame() {
  const place = (id, ...parts) => document.getElementById(id).replaceChildren(...parts);
  document.title = data.title ? given(data.title) : tr('training');
  place('title', document.title);
  document.getElementById('title').lang = data.title && !isHeeds(data.title) ? '' : language;
  place('text', given(data.text));
  place(
      'facts',
      ...data.facts.map(
          ([name, value]) => make(
              'div', {}, make('dt', {}, given(name)),
              make('dd', {}, isHeeds(value) || language === 'en' ? given(value) : givenNumber(value)))));
  place('curves-title', tr('curves'));
  place('maps-title', tr('overTime'));
  document.getElementById('groups').setAttribute('aria-label', tr('groupTabs'));
  slider.setAttribute('aria-label', tr('moment'));
  namePlayButton();
  const move = (id, label, sign, by) =>
      make('button', {type: 'button', id, 'aria-label': tr(label), onclick: () => step(by)}, sign);
  place(
      'time', move('earlier', 'momentBefore', '\u25c2', -1), slider, move('later', 'momentBehind', '\u25b8', 1),
      playButton, when);
  place(
      'foot',
      make(
          'div', {class: 'export'}, make('span', {}, tr('saveCurves')),
          make('button', {type: 'button', 'data-value': 'CSV', onclick: saveCurves}, 'CSV')),
      groups.length ? make('p', {}, tr('storedRelative')) : '', languageTool(), shortcuts.list([
        [', .', tr('keyMoments')], ['p', tr('keyPlay')], ['[ ]', tr('keyHeads')], ['{ }', tr('keyLayers')],
        [tr('keyArrows'), tr('keyReadCurve')], [tr('keyEnter'), tr('keyGoToMoment')]
      ]));
}

frame();
document.getElementById('maps').hidden = !groups.length;
rove(document.getElementById('groups'), '[role=tab]');

document.addEventListener('keydown', event => {
  if (!groups.length || !shortcuts.takes(event)) return;
  const head = shortcuts.headBy(event.key, group(), state.head);
  if (event.key === ',')
    step(-1);
  else if (event.key === '.')
    step(1);
  else if (event.key === 'p')
    play(playing === null);
  else if (head !== undefined)
    look(head);
  else
    return;
  event.preventDefault();
});

drawAgainWhenNeeded();

if (groups.length) state.moment = updatesOf(groups[0]).length - 1;
readAddress();
change({}, {told: true}).then(() => {
  document.documentElement.dataset.ready = 'true';
});
