// The frame around the views: tabs, tools, keys, printing.
const viewOf = {model: modelView, head: headView, inside: insideView, steps: stepsView, compare: compareView};
let drawing = 0;

function pageTitle() { return data.title || 'Attention'; }

/** Changes what is chosen, and draws. The element that had the focus has it again where it still exists. */
async function change(changes) {
  // Only the head view counts in words.
  if (changes.view && state.words && changes.view !== state.view) Object.assign(changes, {query: null, key: null, pinned: false});
  Object.assign(state, changes);
  limitState();
  await draw();
  writeAddress();
}

async function draw() {
  const turn = ++drawing;
  const g = group();
  await Promise.all([g.load(), state.view === 'compare' && g.other.load(), ...(state.view === 'steps' ? stepGroups().map(other => other.load()) : [])]);
  const view = viewOf[state.view];
  const prepared = view.prepare ? await view.prepare() : null;
  if (turn !== drawing) return;  // something else was chosen meanwhile
  const focus = focusOf(document.activeElement);
  tabs(document.getElementById('views'), VIEWS.filter(([name]) => hasView(name)), state.view, name => change({view: name}));
  const groupTabs = groups.filter(other => (state.view === 'inside' ? other.vectors.some(Boolean) : state.view !== 'compare' || other.other))
    .map(other => [other.index, other.name, other.example ? 'example' : '']);
  document.getElementById('groups').hidden = state.view === 'steps' || groupTabs.length < 2;
  tabs(document.getElementById('groups'), groupTabs, state.group,
       index => change({group: index, heads: [], query: null, key: null, pinned: false, cell: null}));
  document.getElementById('tools').replaceChildren(...view.tools());
  const container = document.getElementById('view');
  container.dataset.view = state.view;
  const parts = document.createDocumentFragment();
  if (state.view !== 'steps') {
    if (g.title) parts.append(make('p', {class: 'about'}, g.title));
    if (g.note) parts.append(make('p', {class: 'note'}, g.note));
  }
  view.build(parts, prepared);
  container.replaceChildren(parts);
  view.ready?.(container);
  foot(g);
  restoreFocus(focus);
}

function foot(g) {
  const stored = g.whole
    ? 'Every weight of this tab is stored, in 16 bits.'
    : `Of each row the largest weights are stored, until they hold ${Number((100 * data.limits.mass).toPrecision(5))} % of its sum or are ${data.limits.keys}, in 8 bits: ${percent(g.drop.mean)} of a row is left out in the mean, ${percent(g.drop.most)} at most.`;
  const flagged = Object.keys(g.notes).length;
  document.getElementById('foot').replaceChildren(
    make('div', {class: 'export'}, make('span', {}, 'Save this view:'),
      ...[['SVG', saveSvg], ['PNG', savePng], ['CSV', saveCsv]].map(([name, save]) => make('button', {type: 'button', 'data-value': name, onclick: save}, name))),
    make('p', {}, stored, flagged ? make('strong', {class: 'flag'}, ` ${flagged === 1 ? 'One head is' : `${flagged} heads are`} flagged: not every row is a row of weights that sum to 1.`) : ''),
    make('p', {class: 'keys'}, 'Keys: ', ...[[hasView('compare') ? '1\u20135' : '1\u20134', 'views'], ['[ ]', 'heads'], ['{ }', 'layers'], ['arrows', 'move'], ['Enter', 'choose or pin'], ['Esc', 'let go']].flatMap(([key, what]) => [make('kbd', {}, key), ` ${what}  `])));
}

document.getElementById('title').textContent = pageTitle();
document.getElementById('text').textContent = data.text;
document.title = pageTitle();
rove(document.getElementById('views'), '[role=tab]');
rove(document.getElementById('groups'), '[role=tab]');

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const g = group(), count = g.layers * g.heads;
  const turn = by => change({heads: [((state.heads[0] + by) % count + count) % count]});
  const view = VIEWS[Number(event.key) - 1]?.[0];
  if (view && hasView(view)) change({view});
  else if (event.key === '[') turn(-1);
  else if (event.key === ']') turn(1);
  else if (event.key === '{') turn(-g.heads);
  else if (event.key === '}') turn(g.heads);
  else if (event.key === 'Escape') change({query: null, key: null, pinned: false, cell: null});
  else return;
  event.preventDefault();
});

drawAgainWhenNeeded();

state.ownScale = state.lift = groups.some(g => g.keys > 64);
state.threshold = groups.some(g => g.keys > 64) ? 0.05 : 0.02;
if (groups.every(g => g.layers * g.heads === 1)) state.view = 'head';  // one map tells little without its words
readAddress();
change({}).then(() => {
  document.documentElement.dataset.ready = 'true';
  // The frame after the next one comes when this one is on the screen: what bench/view/measure_page.py asks for.
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('painted')));
});
