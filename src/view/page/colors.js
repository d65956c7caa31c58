// Colours: of weights, of numbers on both sides of 0, of heads, and of what is drawn around them.
const MAP_COLORS =
    Array.from({length: 256}, (_, i) => [0, 2, 4].map(j => parseInt(data.colors.substr(6 * i + j, 2), 16)));
const HEAD_COLORS = {
  light: ['#0067a5', '#c8500a', '#00805c', '#b0487f', '#8a6d00', '#6a3fa0', '#2f8fb8', '#5b5b5b'],
  dark: ['#5cb8f2', '#ff9552', '#35cfa0', '#f09cc8', '#ecc94b', '#b99cf8', '#9ad9f2', '#c4c4c4'],
};
/** Strokes of the first eight heads, the next eight, and so on: lengths of line and gap. */
const HEAD_DASHES = [[], [7, 3], [2, 2], [9, 2, 2, 2]];

const darkQuery = matchMedia('(prefers-color-scheme: dark)');
/** On paper and in files colours are light whatever the screen has. */
const paper = {
  printing: false,
  saving: false
};

function theme() { return darkQuery.matches && !paper.printing && !paper.saving ? 'dark' : 'light'; }

/** Colours for what is drawn: text, lines, background. */
function ink() {
  return theme() === 'dark' ? {text: '#e8e8f0', faint: '#a3a3bd', line: '#3a3a58', back: '#12121f', strong: '#ffffff'} :
                              {text: '#1d1d2b', faint: '#5d5d74', line: '#d9d9e4', back: '#ffffff', strong: '#000000'};
}

const bytesOf = hex => [1, 3, 5].map(at => parseInt(hex.substr(at, 2), 16));
const css = rgb => `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;

/** A part t of `to` over `from`. */
const mixed = (from, to, t) => from.map((c, i) => Math.round(c + (to[i] - c) * t));

/** The colour of t in 0..1, as [r, g, b]: paper or the dark background at 0. */
function mapColor(t) {
  const i = Math.round(255 * Math.min(1, Math.max(0, t)));
  if (theme() === 'light') return MAP_COLORS[i];
  // On dark, the same colours the other way round; the faintest come out of the background.
  return mixed([24, 24, 42], MAP_COLORS[255 - i], Math.min(1, i / 40));
}

/**
 * Colours of numbers on both sides of 0: orange below, blue above. One end is light and the other dark, so that they
 * differ in grey, too: relative luminances of 0.47 and 0.05 on paper, 0.15 and 0.62 on a dark screen.
 */
function signColor(t) {
  const s = Math.min(1, Math.abs(t)), dark = theme() === 'dark';
  const zero = dark ? [24, 24, 42] : [255, 255, 255];
  return mixed(zero, t < 0 ? (dark ? [180, 75, 12] : [245, 166, 58]) : (dark ? [160, 212, 255] : [12, 60, 130]), s);
}

/**
 * The place on the colour scale of a weight that is `t` of the largest: the same, or its root to lift what is faint.
 */
function onScale(t) { return state.lift ? Math.sqrt(Math.max(0, t)) : t; }

/**
 * How a part t of the largest weight becomes a colour: its place on the scale, and the colour there. `signed`: from
 * -1.
 */
const plain = {
  name: 'plain',
  scale: onScale,
  color: mapColor
};
const signed = {
  name: 'signed',
  signed: true,
  scale: t => Math.sign(t) * onScale(Math.abs(t)),
  color: signColor
};
/** For numbers of vectors, which are never lifted. */
const evenly = {
  name: 'evenly',
  signed: true,
  scale: t => t,
  color: signColor
};

function luminance(rgb) {
  const [r, g, b] = rgb.map(c => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Text that can be read on this colour: its contrast is at least 4.5. */
function textOn(rgb) { return (luminance(rgb) + 0.05) ** 2 > 1.05 * 0.05 ? '#000' : '#fff'; }

/** The largest size of a number in several lists; Math.max(...list) would fail for long ones. */
function largestOf(lists) {
  let largest = 1e-9;
  for (const list of lists)
    for (const x of list)
      if (Math.abs(x) > largest) largest = Math.abs(x);
  return largest;
}

/** The colour of the n-th head that is shown; eight have one of their own. */
function headColor(n) {
  const colors = HEAD_COLORS[theme()];
  return colors[n % colors.length];
}
/** What tells heads of one colour apart: 0 none, 1, 2, 3. */
function headPattern(n) { return Math.floor(n / HEAD_COLORS.light.length) % HEAD_DASHES.length; }

/** The colour that a weight gives a token: the n-th head's, or, where weights have signs, that of the sign. */
function weightColor(w, n) { return group().signed ? signColor(Math.sign(w)) : bytesOf(headColor(n)); }
