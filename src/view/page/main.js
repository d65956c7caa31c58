// The frame around the views: tabs, tools, keys, printing.
const viewOf = {
  story: storyView,
  model: modelView,
  head: headView,
  inside: insideView,
  steps: stepsView,
  compare: compareView
};
let drawing = 0, toolsDue = true;

function pageTitle() { return data.title || tr('attention'); }

/**
 * Changes what is chosen, and draws. The element that had the focus has it again where it still exists. `tools` false:
 * they stay, as a slider must that is being dragged. `told`: by the address, which then has no place to go back to.
 */
async function change(changes, {tools = true, told = false} = {}) {
  // Views count in tokens or in words, and the story tells of a token of its own.
  if (changes.view && changes.view !== state.view && (state.words || [changes.view, state.view].includes('story')))
    changes = {query: null, key: null, pinned: false, ...changes};
  Object.assign(state, changes);
  limitState();
  await draw(tools);
  writeAddress(!tools ? 'later' : told || placeOf() === place ? 'replace' : 'push');
}

async function draw(tools = true) {
  const turn = ++drawing;
  toolsDue ||= tools;
  const g = group();
  await Promise.all([
    g.load(), state.view === 'compare' && g.other.load(),
    ...(state.view === 'steps' ? stepGroups().map(other => other.load()) : [])
  ]);
  const view = viewOf[state.view];
  const prepared = view.prepare ? await view.prepare() : null;
  if (turn !== drawing) return;  // something else was chosen meanwhile
  const focus = focusOf(document.activeElement);
  tabs(
      document.getElementById('views'), shownViews().map(name => [name, tr(`view_${name}`)]), state.view,
      name => change({view: name}));
  const groupTabs =
      groups
          .filter(
              other =>
                  (state.view === 'inside' ? other.vectors.some(Boolean) : state.view !== 'compare' || other.other))
          .filter(other => !other.measure || other === other.measures[0])
          .map(other => [measuredAlike(other, g).index, other.shownName]);
  document.getElementById('groups').hidden = state.view === 'steps' || groupTabs.length < 2;
  tabs(
      document.getElementById('groups'), groupTabs, state.group,
      index =>
          change({group: index, heads: [], query: null, key: null, pinned: false, cell: null, window: {}, tour: 0}));
  const container = document.getElementById('view');
  if (toolsDue || state.view !== container.dataset.view)
    document.getElementById('tools').replaceChildren(...measureTool(g), ...view.tools());
  else
    view.updateTools();
  toolsDue = false;
  container.dataset.view = state.view;
  container.setAttribute('aria-label', tr(`view_${state.view}`));
  const parts = document.createDocumentFragment();
  parts.append(make('p', {class: 'printed'}, chosenInWords()));
  if (!['story', 'steps'].includes(state.view)) {
    if (g.title) parts.append(givenLine('about', g.title));
    if (g.note) parts.append(givenLine('note', g.note));
  }
  view.build(parts, prepared);
  explanation.close();
  container.replaceChildren(parts);
  view.ready?.(container);
  foot(g);
  restoreFocus(focus);
}

/** The group of this name that is measured as `g` is, or in its own way. */
function measuredAlike(other, g) {
  return other.measures.find(each => g.measure && each.measure === g.measure) ?? other;
}

/** The choice of what is measured, where there are several. */
function measureTool(g) {
  if (!['model', 'head'].includes(state.view) || !g.measures.some(other => other.measure)) return [];
  const nameOf = measure => (TEXTS[`measure_${measure}`] ? tr(`measure_${measure}`) : measure);
  const options = g.measures.map(other => [other.index, nameOf(other.measure || 'weights')]);
  const choose = index => {
    const other = groups[index];
    // Rollout has one map a layer.
    const heads = other.heads === g.heads ? state.heads : state.heads.map(n => g.head(n).layer * other.heads);
    change({group: other.index, heads: [...new Set(heads)]});
  };
  return [choice(tr('measure'), options, g.index, index => choose(Number(index)))];
}

/** A text of the page's data as a line: in the language of the page where it is heed's own, else the reader's. */
function givenLine(kind, text) {
  const own = isHeeds(text);
  return make('p', {class: kind, lang: own ? null : '', dir: own ? null : 'auto'}, given(text));
}

/** What was chosen, for paper: there are no tools on it. */
function chosenInWords() {
  const parts = [tr(`view_${state.view}`)];
  if (state.view !== 'steps' && groups.length > 1) parts.push(group().shownName);
  if (!['story', 'steps', 'model'].includes(state.view)) parts.push(headsName());
  for (const tool of document.querySelectorAll('#tools .segments [aria-pressed=true], #tools label')) {
    const input = tool.querySelector('input, select'), name = tool.querySelector('span')?.textContent;
    if (!input)
      parts.push(tool.textContent);
    else if (input.type === 'checkbox')
      parts.push(input.checked && name);
    else if (input.type !== 'search')
      parts.push(`${name} ${tool.querySelector('output')?.textContent ?? input.selectedOptions[0]?.textContent}`);
  }
  return parts.filter(Boolean).join(' \u00b7 ');
}

function foot(g) {
  const mass = format({maximumSignificantDigits: 5}).format(100 * data.limits.mass);
  const stored = g.whole ? tr('storedWhole') : tr('storedLargest', {
    mass,
    keys: data.limits.keys,
    mean: percent(g.drop.mean),
    most: percent(g.drop.most),
  });
  const flagged = Object.keys(g.notes).length;
  document.getElementById('foot').replaceChildren(
      make(
          'div', {class: 'export'}, make('span', {}, tr('saveView')),
          ...[['SVG', saveSvg], ['PNG', savePng], ['CSV', saveCsv]].map(
              ([name, save]) => make('button', {type: 'button', 'data-value': name, onclick: save}, name))),
      make('p', {}, stored, flagged ? make('strong', {class: 'flag'}, ' ' + tr('flaggedHeads', {n: flagged})) : ''),
      languageTool(), shortcuts.list([
        [`1\u2013${shownViews().length}`, tr('keyViews')],
        ...(groups.some(other => other.layers * other.heads > 1) ? [['[ ]', tr('keyHeads')]] : []),
        ...(groups.some(other => other.layers > 1) ? [['{ }', tr('keyLayers')]] : []), [tr('keyArrows'), tr('keyMove')],
        [tr('keyEnter'), tr('keyPin')], [tr('keyEsc'), tr('keyRelease')]
      ]));
}

/** What stands around the views and is not drawn again. */
function frame(otherWords = true) {
  document.getElementById('title').textContent = document.title = pageTitle();
  document.getElementById('title').lang = data.title ? '' : language;
  document.getElementById('text').textContent = data.text;
  document.getElementById('views').setAttribute('aria-label', tr('viewTabs'));
  document.getElementById('groups').setAttribute('aria-label', tr('groupTabs'));
  if (otherWords) live.build();
}

frame();
rove(document.getElementById('views'), '[role=tab]');
rove(document.getElementById('groups'), '[role=tab]');

document.addEventListener('keydown', event => {
  if (event.key === 'Escape' && state.tour) return void tour.end();
  if (!shortcuts.takes(event)) return;
  const view = shownViews()[Number(event.key) - 1], head = shortcuts.headBy(event.key, group(), state.heads[0]);
  if (view)
    change({view});
  else if (head !== undefined)
    change({heads: [head]});
  else if (event.key === 'Escape')
    change({query: null, key: null, pinned: false, cell: null});
  else
    return;
  event.preventDefault();
});

drawAgainWhenNeeded();

openFirst();
readAddress();
change({}, {told: true}).then(() => {
  document.documentElement.dataset.ready = 'true';
  // The frame after the next one comes when this one is on the screen: what bench/view/measure_page.py asks for.
  requestAnimationFrame(() => requestAnimationFrame(() => {
                          performance.mark('painted');
                          live.start();
                        }));
});
