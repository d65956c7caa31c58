// Tools, tabs, figures, focus and files: what the pages have in common. `state`, `change`,
// `draw` and `readAddress` are those of the page.
function choice(label, options, value, onchange, langOf = () => null) {
  const select = make(
      'select', {'aria-label': label, onchange: event => onchange(event.target.value)},
      ...options.map(
          ([name, text]) => make(
              'option', {value: String(name), selected: String(name) === String(value), lang: langOf(name)}, text)));
  return make('label', {class: 'choice'}, make('span', {}, label), select);
}

function toggle(label, value, onchange, title) {
  return make(
      'label', {class: 'toggle', title},
      make('input', {type: 'checkbox', checked: value, onchange: event => onchange(event.target.checked)}),
      make('span', {}, label));
}

function liftTool() { return toggle(tr('lift'), state.lift, lift => change({lift}), tr('liftWhy')); }

function tabs(container, entries, chosen, onchoose) {
  container.replaceChildren(...entries.map(
      ([value, label]) => make(
          'button', {
            type: 'button',
            role: 'tab',
            'data-value': String(value),
            'aria-controls': 'view',
            'aria-selected': String(value === chosen),
            tabIndex: value === chosen ? 0 : -1,
            onclick: () => onchoose(value),
          },
          label)));
  // On a narrow screen tabs scroll to the side.
  const now = container.querySelector('[aria-selected=true]')?.getBoundingClientRect();
  const room = container.getBoundingClientRect();
  if (now && now.right > room.right) container.scrollLeft += now.right - room.right;
  if (now && now.left < room.left) container.scrollLeft -= room.left - now.left;
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
  const element = typeof focus === 'string' ? document.querySelector(focus) : [
    ...document.querySelectorAll('label')
  ].find(label => label.textContent === focus.label)?.querySelector('input, select');
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
    const step = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: columns(),
      ArrowUp: -columns(),
      Home: -at,
      End: items.length - 1 - at
    }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = items[Math.max(0, Math.min(items.length - 1, at + step))];
    for (const item of items) item.tabIndex = item === next ? 0 : -1;
    next.focus();
  });
}

function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  const link = make('a', {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Text that a spreadsheet would take for a formula begins with an apostrophe, which makes it text. */
function csvField(value) {
  if (typeof value === 'number') return String(Number(value.toPrecision(7)));
  const text = String(value ?? '').replace(/^[=+\-@\t\r]/, '\'$&');
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Begins with a byte-order mark, by which spreadsheets know UTF-8. */
function csvText(rows) { return '\ufeff' + rows.map(row => row.map(csvField).join(',')).join('\r\n') + '\r\n'; }

// ---------------------------------------------------------------------------------------------- single keys

/** Whether single keys do something: speech and some switches type what was never meant. The browser remembers it. */
const shortcuts = {
  on: memory.read('heed-shortcuts') !== 'off',

  set(on) {
    this.on = on;
    memory.write('heed-shortcuts', on ? 'on' : 'off');
  },

  /** A key that is a shortcut here: not where text is typed or chosen, nor with another key held. */
  takes(event) {
    const types = 'select, textarea, input:not([type=checkbox]):not([type=range])';
    return this.on && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches?.(types);
  },

  /** Which of the heads of g a key leads to from head n, with layers as rows; undefined for other keys. */
  headBy(key, g, n) {
    const by = {'[': -1, ']': 1, '{': -g.heads, '}': g.heads}[key], count = g.layers * g.heads;
    return by && (((n + by) % count) + count) % count;
  },

  /** For the foot of the page: what keys there are, [[key, what it does]], and the switch. */
  list(keys) {
    return make(
        'div', {class: 'keys'}, toggle(tr('shortcuts'), this.on, on => this.set(on), tr('shortcutsWhy')),
        make('span', {}, ...keys.flatMap(([key, what]) => [make('kbd', {}, key), ` ${what}  `])));
  },
};

/** After another colour scheme, address or width, and on paper. */
function drawAgainWhenNeeded() {
  darkQuery.addEventListener('change', () => draw());
  addEventListener('hashchange', () => {
    readAddress();
    change({}, {told: true});
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
