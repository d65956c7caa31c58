// Tools, tabs, figures, focus and files: what the pages have in common. `state`, `change`,
// `draw` and `readAddress` are those of the page.
function choice(label, options, value, onchange) {
  const select = make('select', {'aria-label': label, onchange: event => onchange(event.target.value)},
    ...options.map(([name, text]) => make('option', {value: String(name), selected: String(name) === String(value)}, text)));
  return make('label', {class: 'choice'}, make('span', {}, label), select);
}

function toggle(label, value, onchange, title) {
  return make('label', {class: 'toggle', title}, make('input', {type: 'checkbox', checked: value, onchange: event => onchange(event.target.checked)}), make('span', {}, label));
}

function liftTool() {
  return toggle('lift faint weights', state.lift, lift => change({lift}), 'colour by the square root of a weight');
}

function colorBar(end, {begin = '0', from = 0, palette = plain, title = 'colour of a weight'} = {}) {
  const canvas = make('canvas', {class: 'pixels bar', 'aria-hidden': 'true'});
  canvas.width = 64;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  for (let i = 0; i < 64; ++i) {
    context.fillStyle = css(palette.color(palette.scale(from + (1 - from) * i / 63)));
    context.fillRect(i, 0, 1, 1);
  }
  return make('span', {class: 'scale', title}, begin, canvas, end);
}

function tabs(container, entries, chosen, onchoose) {
  container.replaceChildren(...entries.map(([value, label, extra]) => make('button', {
    type: 'button', role: 'tab', class: extra ?? '', 'data-value': String(value), 'aria-selected': String(value === chosen),
    tabIndex: value === chosen ? 0 : -1, onclick: () => onchoose(value),
  }, label)));
}

/** How to find the focused element again after drawing. */
function focusOf(element) {
  if (!element || element === document.body) return null;
  if (element.id) return '#' + element.id;
  for (const name of ['data-head', 'data-token', 'data-value', 'aria-label'])
    if (element.hasAttribute(name)) {
      const parent = element.closest('[id]');
      return `${parent ? '#' + CSS.escape(parent.id) + ' ' : ''}[${name}="${CSS.escape(element.getAttribute(name))}"]`;
    }
  const parent = element.closest('label');
  if (parent) return {label: parent.textContent};
  return null;
}

function restoreFocus(focus) {
  if (!focus) return;
  const element = typeof focus === 'string'
    ? document.querySelector(focus)
    : [...document.querySelectorAll('label')].find(label => label.textContent === focus.label)?.querySelector('input, select');
  state.restoring = true;  // the token that has the focus again is not looked at anew
  if (element && element !== document.activeElement) element.focus({preventScroll: true});
  state.restoring = false;
}

/** Tells a screen reader. */
function say(text) { document.getElementById('say').textContent = text; }

/** Moves the focus among the elements of a list with the arrow keys. */
function rove(container, selector, columns = () => 1) {
  container.addEventListener('keydown', event => {
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(event.target);
    if (at < 0) return;
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns(), Home: -at, End: items.length - 1 - at}[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = items[Math.max(0, Math.min(items.length - 1, at + step))];
    for (const item of items) item.tabIndex = item === next ? 0 : -1;
    next.focus();
  });
}

function figureText(g, n, name) {
  const value = g.figure(n, name);
  const unit = FIGURES[name].unit;
  if (value === null) return 'NaN';
  return unit === 'share' ? percent(value) : `${number(value)} ${unit === 'nats' ? 'nats' : ''}`.trim();
}

/** The figures of a head as a list with bars. */
function figureList(g, n) {
  const most = {nats: Math.log(Math.max(2, g.keys)), positions: Math.max(1, g.keys - 1, g.queries - 1), share: 1};
  return make('dl', {class: 'figures'}, ...Object.entries(FIGURES).flatMap(([name, {label, text, unit}]) => {
    const part = Math.min(1, (g.figure(n, name) ?? 0) / most[unit]);
    const extra = name === 'sink' ? ` on ${g.key.labels[g.sinks[n].key] ?? ''}` : '';
    return [make('dt', {title: text}, label),
            make('dd', {}, make('span', {class: 'meter', vars: {'--part': `${100 * part}%`}}),
                 make('span', {class: 'amount'}, figureText(g, n, name)),
                 extra && make('bdi', {class: 'on', title: extra}, extra))];
  }));
}

function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  const link = make('a', {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function csvField(value) {
  if (typeof value === 'number') return String(Number(value.toPrecision(7)));
  const text = String(value ?? '');
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(rows) { return rows.map(row => row.map(csvField).join(',')).join('\r\n') + '\r\n'; }

/** After another colour scheme, address or width, and on paper. */
function drawAgainWhenNeeded() {
  darkQuery.addEventListener('change', () => draw());
  addEventListener('hashchange', () => {
    readAddress();
    change({});
  });
  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth === width) return;  // a phone's bars coming and going
    width = innerWidth;
    draw();
  });
  for (const [name, printing] of [['beforeprint', true], ['afterprint', false]])
    addEventListener(name, () => {
      paper.printing = printing;
      draw();
    });
}
