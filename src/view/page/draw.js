// Colours, elements, and two pens with the same strokes: one draws on a canvas, one writes SVG.
const MAP_COLORS = Array.from({length: 256}, (_, i) => [0, 2, 4].map(j => parseInt(data.colors.substr(6 * i + j, 2), 16)));
const HEAD_COLORS = {
  light: ['#0067a5', '#c8500a', '#00805c', '#b0487f', '#8a6d00', '#6a3fa0', '#2f8fb8', '#5b5b5b'],
  dark: ['#5cb8f2', '#ff9552', '#35cfa0', '#f09cc8', '#ecc94b', '#b99cf8', '#9ad9f2', '#c4c4c4'],
};

const darkQuery = matchMedia('(prefers-color-scheme: dark)');
const paper = {printing: false};  // printing: light colours whatever the screen has

function theme() { return darkQuery.matches && !paper.printing ? 'dark' : 'light'; }

/** Colours for what is drawn: text, lines, background. */
function ink() {
  return theme() === 'dark'
    ? {text: '#e8e8f0', faint: '#9a9ab4', line: '#3a3a58', back: '#12121f', strong: '#ffffff'}
    : {text: '#1d1d2b', faint: '#63637a', line: '#d9d9e4', back: '#ffffff', strong: '#000000'};
}

/** The colour of t in 0..1, as [r, g, b]: paper or the dark background at 0. */
function mapColor(t) {
  const i = Math.round(255 * Math.min(1, Math.max(0, t)));
  if (theme() === 'light') return MAP_COLORS[i];
  // On dark, the same colours the other way round; the faintest come out of the background.
  const color = MAP_COLORS[255 - i], fade = Math.min(1, i / 40);
  return color.map((c, n) => Math.round([24, 24, 42][n] + (c - [24, 24, 42][n]) * fade));
}

/** The place on the colour scale of a weight that is `t` of the largest: the same, or its root to lift what is faint. */
function onScale(t) { return state.lift ? Math.sqrt(Math.max(0, t)) : t; }

/** How a part t of the largest weight becomes a colour: its place on the scale, and the colour there. */
const plain = {scale: onScale, color: mapColor};

const css = rgb => `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;

/** Text that can be read on this colour. */
function textOn(rgb) { return 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 140 ? '#111' : '#fff'; }

/** The largest size of a number in several lists; Math.max(...list) would fail for long ones. */
function largestOf(lists) {
  let largest = 1e-9;
  for (const list of lists) for (const x of list) largest = Math.max(largest, Math.abs(x));
  return largest;
}

/** Colours of numbers on both sides of 0: orange below, blue above. */
function signColor(t) {
  const s = Math.min(1, Math.abs(t)), dark = theme() === 'dark';
  const zero = dark ? [24, 24, 42] : [255, 255, 255];
  const end = t < 0 ? (dark ? [240, 140, 70] : [190, 80, 10]) : (dark ? [90, 170, 245] : [15, 90, 165]);
  return zero.map((c, i) => Math.round(c + (end[i] - c) * s));
}

/** The colour of the n-th head that is shown. */
function headColor(n) {
  const colors = HEAD_COLORS[theme()];
  return colors[n % colors.length];
}

/** An element. Strings become text, never markup; a property whose name begins with "on" is a listener. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name === 'vars') for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** A canvas of css size w x h, sharp on every screen, with its context scaled. */
function makeCanvas(w, h, properties = {}) {
  const canvas = make('canvas', properties);
  sizeCanvas(canvas, w, h);
  return canvas;
}

function sizeCanvas(canvas, w, h) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(w * ratio));
  canvas.height = Math.max(1, Math.round(h * ratio));
  canvas.style.width = `${w}px`;
  canvas.style.height = `${h}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

const FONT = 'system-ui, "DejaVu Sans", "Noto Color Emoji", sans-serif';

class CanvasPen {
  constructor(context) { this.c = context; }
  rect(x, y, w, h, fill) {
    this.c.fillStyle = fill;
    this.c.fillRect(x, y, w, h);
  }
  frame(x, y, w, h, stroke, width = 1) {
    this.c.strokeStyle = stroke;
    this.c.lineWidth = width;
    this.c.strokeRect(x, y, w, h);
  }
  curve(x1, y1, x2, y2, stroke, width, alpha) {
    const c = this.c, middle = (x1 + x2) / 2;
    c.globalAlpha = alpha;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(middle, y1, middle, y2, x2, y2);
    c.stroke();
    c.globalAlpha = 1;
  }
  text(x, y, text, {size = 12, color, align = 'left', turn = 0, bold = false, width} = {}) {
    const c = this.c;
    c.save();
    c.translate(x, y);
    c.rotate(turn);
    c.fillStyle = color ?? ink().text;
    c.font = `${bold ? 'bold ' : ''}${size}px ${FONT}`;
    c.textAlign = align;
    c.textBaseline = 'middle';
    c.fillText(fit(text, size, width), 0, 0);
    c.restore();
  }
  image(canvas, x, y, w, h) {
    this.c.imageSmoothingEnabled = canvas.width > w;
    this.c.drawImage(canvas, x, y, w, h);
  }
}

const xml = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const short = x => String(Math.round(x * 100) / 100);

class SvgPen {
  constructor() { this.parts = []; }
  rect(x, y, w, h, fill) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${fill}"/>`);
  }
  frame(x, y, w, h, stroke, width = 1) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="none" stroke="${stroke}" stroke-width="${width}"/>`);
  }
  curve(x1, y1, x2, y2, stroke, width, alpha) {
    const m = short((x1 + x2) / 2);
    this.parts.push(`<path d="M${short(x1)} ${short(y1)}C${m} ${short(y1)} ${m} ${short(y2)} ${short(x2)} ${short(y2)}" fill="none" stroke="${stroke}" stroke-width="${short(width)}" stroke-opacity="${alpha.toFixed(3)}"/>`);
  }
  text(x, y, text, {size = 12, color, align = 'left', turn = 0, bold = false, width} = {}) {
    const anchor = {left: 'start', center: 'middle', right: 'end'}[align];
    const rotate = turn ? ` transform="rotate(${short(turn * 180 / Math.PI)} ${short(x)} ${short(y)})"` : '';
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${size}" fill="${color ?? ink().text}" text-anchor="${anchor}" dominant-baseline="central"${bold ? ' font-weight="bold"' : ''}${rotate}>${xml(fit(text, size, width))}</text>`);
  }
  image(canvas, x, y, w, h) {
    const rendering = canvas.width > w ? '' : ' image-rendering="pixelated"';
    this.parts.push(`<image x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" preserveAspectRatio="none"${rendering} href="${canvas.toDataURL('image/png')}"/>`);
  }
  document(width, height, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}" font-family="${xml(FONT)}"><title>${xml(title)}</title><rect width="100%" height="100%" fill="${ink().back}"/>${this.parts.join('')}</svg>`;
  }
}

const measure = document.createElement('canvas').getContext('2d');
const segmenter = new Intl.Segmenter();

/** The text, cut between characters with an ellipsis where it is wider than `width` pixels. */
function fit(text, size, width) {
  if (width === undefined) return text;
  measure.font = `${size}px ${FONT}`;
  if (text.length < 2000 && measure.measureText(text).width <= width) return text;
  let out = '';
  for (const {segment} of segmenter.segment(text.slice(0, 400))) {
    if (measure.measureText(out + segment + '\u2026').width > width) break;
    out += segment;
  }
  return out + '\u2026';
}

/** The width of the widest label, `most` at most. */
function widest(labels, size, most) {
  measure.font = `${size}px ${FONT}`;
  let out = 0;
  for (const label of labels) out = Math.max(out, label.length > 200 ? most : measure.measureText(label).width);
  return Math.min(most, out);
}

/** A small canvas with one pixel for a weight, or for the largest of several; `top` has the strongest colour. */
function thumbnail(grid, top, limit = 160, palette = plain) {
  const rowStep = Math.max(1, Math.ceil(grid.rows / limit)), columnStep = Math.max(1, Math.ceil(grid.columns / limit));
  const h = Math.max(1, Math.ceil(grid.rows / rowStep)), w = Math.max(1, Math.ceil(grid.columns / columnStep));
  const cells = new Float32Array(w * h);
  for (let i = 0; i < grid.rows; ++i) {
    const base = Math.floor(i / rowStep) * w;
    for (let e = grid.start[i]; e < grid.start[i + 1]; ++e) {
      const cell = base + Math.floor(grid.key[e] / columnStep);
      if (Math.abs(grid.weight[e]) > Math.abs(cells[cell])) cells[cell] = grid.weight[e];
    }
  }
  const canvas = document.createElement('canvas');
  canvas.width = w;
  canvas.height = h;
  const context = canvas.getContext('2d');
  const image = context.createImageData(w, h);
  const table = Array.from({length: 511}, (_, i) => palette.color((i - 255) / 255));
  for (let cell = 0; cell < cells.length; ++cell) {
    const color = table[255 + Math.max(-255, Math.min(255, Math.round(255 * palette.scale(cells[cell] / top))))];
    image.data.set([color[0], color[1], color[2], 255], 4 * cell);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** 0.25, 0.031, 4.2e-5: three digits. */
function number(x) {
  if (x === null || Number.isNaN(x)) return 'NaN';
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 100) return x.toFixed(0);
  if (size >= 10) return x.toFixed(1);
  if (size >= 0.995) return x.toFixed(2);
  if (size >= 0.0005) return x.toFixed(3);
  return x.toExponential(1);
}

/** +0.25, \u22120.031, 0. */
function signedNumber(x) { return x > 0 ? `+${number(x)}` : x < 0 ? `\u2212${number(-x)}` : number(x); }

/** 62 %, 3.1 %, 0.04 %. */
function percent(x) {
  const p = 100 * x;
  if (Number.isNaN(p)) return 'NaN';
  return `${p >= 10 ? p.toFixed(0) : p >= 1 ? p.toFixed(1) : p === 0 ? '0' : p >= 0.005 ? p.toFixed(2) : '<0.01'} %`;
}

/** A pen whose origin lies at (dx, dy) of another. */
class ShiftedPen {
  constructor(pen, dx, dy) { Object.assign(this, {pen, dx, dy}); }
  rect(x, y, ...rest) { this.pen.rect(x + this.dx, y + this.dy, ...rest); }
  frame(x, y, ...rest) { this.pen.frame(x + this.dx, y + this.dy, ...rest); }
  curve(x1, y1, x2, y2, ...rest) { this.pen.curve(x1 + this.dx, y1 + this.dy, x2 + this.dx, y2 + this.dy, ...rest); }
  text(x, y, ...rest) { this.pen.text(x + this.dx, y + this.dy, ...rest); }
  image(canvas, x, y, ...rest) { this.pen.image(canvas, x + this.dx, y + this.dy, ...rest); }
}

/** A token as text: where it goes on with a word, a dot stands before it. */
function tokenText(tokens, i) { return (tokens.continues(i) ? '\u00b7' : '') + tokens.labels[i]; }

/** How a map fits into `space` pixels across: the room for labels and the size of a cell. */
function mapSize(query, key, space) {
  const label = Math.ceil(widest(query.labels, 12, 120)) + 14, head = Math.ceil(widest(key.labels, 12, 100)) + 14;
  const cell = Math.max(1, Math.min(38, (space - label) / Math.max(key.count, query.count * 0.6)));
  return {label, head, cell, width: label + cell * key.count + 10, height: head + cell * query.count + 10};
}

/** A map with its labels and, where a cell has `room`, numbers; `query` and `key` are framed. */
function drawGrid(pen, grid, queries, keys, {label, head, cell}, {top, query = null, key = null, palette = plain, text = w => w.toFixed(2).replace(/^0/, ''), room = 26, faintQueries = () => false, faintKeys = () => false}) {
  const {rows, columns} = grid;
  pen.image(thumbnail(grid, top, 2048, palette), label, head, cell * columns, cell * rows);
  pen.frame(label, head, cell * columns, cell * rows, ink().line);
  const size = Math.max(8, Math.min(12, cell - 2)), every = Math.max(1, Math.ceil((size + 2) / cell));
  const color = faint => (faint ? ink().faint : undefined);
  for (let i = 0; i < rows; i += every)
    pen.text(label - 6, head + (i + 0.5) * cell, tokenText(queries, i), {size, align: 'right', width: label - 12, bold: i === query, color: color(faintQueries(i))});
  for (let j = 0; j < columns; j += every)
    pen.text(label + (j + 0.5) * cell, head - 6, tokenText(keys, j), {size, turn: -Math.PI / 2, width: head - 12, bold: j === key, color: color(faintKeys(j))});
  if (cell >= room)
    for (let i = 0; i < rows; ++i)
      grid.each(i, (j, w) => {
        if (Math.abs(w) >= 0.005) pen.text(label + (j + 0.5) * cell, head + (i + 0.5) * cell, text(w), {size: 10, align: 'center', color: textOn(palette.color(palette.scale(w / top)))});
      });
  if (query !== null) pen.frame(label, head + query * cell, cell * columns, cell, ink().strong);
  if (key !== null) pen.frame(label + key * cell, head, cell, cell * rows, ink().strong);
}
