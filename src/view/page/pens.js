// Elements, and two pens with the same strokes: one draws on a canvas, one writes SVG.

/** An element. Strings become text, never markup; a property whose name begins with "on" is a listener. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  if (tag === 'bdi') element.lang = '';  // the reader's text, in a language that the page does not know
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else if (name === 'class')
      element.className = value;
    else if (name === 'vars')
      for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name in element && typeof value !== 'string')
      element[name] = value;
    else
      element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const MOST_PIXELS = 1 << 24;  // of a canvas: 64 MB

/** A canvas of css size w x h, sharp on every screen, with its context scaled. */
function makeCanvas(w, h, properties = {}) {
  const canvas = make('canvas', properties);
  sizeCanvas(canvas, w, h);
  return canvas;
}

function sizeCanvas(canvas, w, h) {
  const ratio = Math.min(2, window.devicePixelRatio || 1, Math.sqrt(MOST_PIXELS / Math.max(1, w * h)));
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
  curve(x1, y1, x2, y2, stroke, width, alpha, dash = []) {
    const c = this.c, middle = (x1 + x2) / 2;
    c.globalAlpha = alpha;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(middle, y1, middle, y2, x2, y2);
    c.stroke();
    c.globalAlpha = 1;
    c.setLineDash([]);
  }
  text(x, y, text, {size = 12, color, align = 'left', turn = 0, bold = false, width} = {}) {
    const c = this.c;
    c.save();
    c.translate(x, y);
    c.rotate(turn);
    c.fillStyle = color ?? ink().text;
    c.font = `${bold ? 'bold ' : ''}${size}px ${FONT}`;
    c.textAlign = align;
    c.direction = directionOf(text);
    c.textBaseline = 'middle';
    c.fillText(fit(text, size, width), 0, 0);
    c.restore();
  }
  image(canvas, x, y, w, h) {
    this.c.imageSmoothingEnabled = canvas.width > w;
    this.c.drawImage(canvas, x, y, w, h);
  }
  /** Calls draw() so that nothing is drawn outside of a rectangle. */
  within(x, y, w, h, draw) {
    this.c.save();
    this.c.beginPath();
    this.c.rect(x, y, w, h);
    this.c.clip();
    draw();
    this.c.restore();
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
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${
        short(h)}" fill="none" stroke="${stroke}" stroke-width="${width}"/>`);
  }
  curve(x1, y1, x2, y2, stroke, width, alpha, dash = []) {
    const m = short((x1 + x2) / 2);
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(' ')}"` : '';
    this.parts.push(`<path d="M${short(x1)} ${short(y1)}C${m} ${short(y1)} ${m} ${short(y2)} ${short(x2)} ${
        short(y2)}" fill="none" stroke="${stroke}" stroke-width="${short(width)}" stroke-opacity="${alpha.toFixed(3)}"${
        dashes}/>`);
  }
  text(x, y, text, {size = 12, color, align = 'left', turn = 0, bold = false, width} = {}) {
    // Where a text begins is its right end when it is written to the left.
    const leftward = directionOf(text) === 'rtl';
    const anchor = {left: leftward ? 'end' : 'start', center: 'middle', right: leftward ? 'start' : 'end'}[align];
    const rotate = turn ? ` transform="rotate(${short(turn * 180 / Math.PI)} ${short(x)} ${short(y)})"` : '';
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${size}" fill="${
        color ?? ink().text}" text-anchor="${anchor}" dominant-baseline="central"${leftward ? ' direction="rtl"' : ''}${
        bold ? ' font-weight="bold"' : ''}${rotate}>${xml(fit(text, size, width))}</text>`);
  }
  image(canvas, x, y, w, h) {
    const rendering = canvas.width > w ? '' : ' image-rendering="pixelated"';
    this.parts.push(`<image x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${
        short(h)}" preserveAspectRatio="none"${rendering} href="${canvas.toDataURL('image/png')}"/>`);
  }
  document(width, height, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${short(width)}" height="${short(height)}" viewBox="0 0 ${
        short(width)} ${short(height)}" font-family="${xml(FONT)}"><title>${
        xml(title)}</title><rect width="100%" height="100%" fill="${ink().back}"/>${this.parts.join('')}</svg>`;
  }
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

// ---------------------------------------------------------------------------------------------- text

const measure = document.createElement('canvas').getContext('2d');
const segmenter = new Intl.Segmenter();

const LEFTWARD =
    /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/** Which way a text is written, by its first letter: 'ltr' or 'rtl'. */
function directionOf(text) { return LEFTWARD.test(/\p{L}/u.exec(text)?.[0] ?? '') ? 'rtl' : 'ltr'; }

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

/** 0.25, 0.031, 4.2e-5: three digits, with the point or comma of the language. */
function number(x) {
  if (x === null || Number.isNaN(x)) return 'NaN';
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 100) return fixed(x, 0);
  if (size >= 10) return fixed(x, 1);
  if (size >= 0.995) return fixed(x, 2);
  if (size >= 0.0005) return fixed(x, 3);
  return format({notation: 'scientific', minimumFractionDigits: 1, maximumFractionDigits: 1}).format(x).toLowerCase();
}

/** +0.25, \u22120.031, 0. */
function signedNumber(x) { return x > 0 ? `+${number(x)}` : x < 0 ? `\u2212${number(-x)}` : number(x); }

/** A weight: with a minus sign, not a hyphen, where it is below 0. */
function weightText(x) { return x < 0 ? `\u2212${number(-x)}` : number(x); }

/** 62 %, 3.1 %, 0.04 %. */
function percent(x) {
  const p = 100 * x;
  if (Number.isNaN(p)) return 'NaN';
  if (p < 0) return `\u2212${percent(-x)}`;
  const text = p >= 10 ? fixed(p, 0) :
      p >= 1           ? fixed(p, 1) :
      p === 0          ? '0' :
      p >= 0.005       ? fixed(p, 2) :
                         `<${fixed(0.01, 2)}`;
  return `${text} %`;
}

/** A token as text: where it goes on with a word, a dot stands before it. */
function tokenText(tokens, i) { return (tokens.continues(i) ? '\u00b7' : '') + tokens.labels[i]; }
