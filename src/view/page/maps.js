// Maps of weights: small ones, one pixel a weight, and large ones with labels and numbers that can be pointed at.

/** Where weights are not finite: stripes that no colour scale has. `x` and `y` count pixels. */
function hatch(x, y) {
  const dark = theme() === 'dark';
  return (x + y) % 4 < 2 ? (dark ? [235, 235, 245] : [90, 90, 90]) : (dark ? [70, 70, 80] : [225, 225, 225]);
}

/** Rows and columns of a map, from the first to the one behind the last: all of them. */
const wholeRange = grid => ({rows: [0, grid.rows], columns: [0, grid.columns]});

/**
 * A small canvas with one pixel for a weight, or for the largest of several; `top` has the strongest colour. Where a
 * weight is not finite, several pixels each, so that stripes have room. `range`: of these rows and columns alone.
 */
function thumbnail(grid, top, limit = 160, palette = plain, range = wholeRange(grid)) {
  const {rows: [i0, i1], columns: [j0, j1]} = range;
  const rowStep = Math.max(1, Math.ceil((i1 - i0) / limit)), columnStep = Math.max(1, Math.ceil((j1 - j0) / limit));
  const h = Math.max(1, Math.ceil((i1 - i0) / rowStep)), w = Math.max(1, Math.ceil((j1 - j0) / columnStep));
  const cells = new Float32Array(w * h);
  for (let i = i0; i < i1; ++i) {
    const base = Math.floor((i - i0) / rowStep) * w;
    for (let e = grid.start[i]; e < grid.start[i + 1]; ++e) {
      const j = grid.key[e];
      if (j < j0 || j >= j1) continue;
      const cell = base + Math.floor((j - j0) / columnStep);
      if (!(Math.abs(grid.weight[e]) <= Math.abs(cells[cell]))) cells[cell] = grid.weight[e];  // what is NaN stays
    }
  }
  const times = grid.finite ? 1 : Math.max(1, Math.min(8, Math.floor(2048 / Math.max(w, h))));
  const canvas = document.createElement('canvas');
  canvas.width = w * times;
  canvas.height = h * times;
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  const table = Array.from({length: 511}, (_, i) => palette.color((i - 255) / 255));
  const pixels = new Uint32Array(image.data.buffer);
  const packed = rgb => (255 << 24 | rgb[2] << 16 | rgb[1] << 8 | rgb[0]) >>> 0;
  const packedTable = Uint32Array.from(table, packed);
  for (let y = 0; y < canvas.height; ++y)
    for (let x = 0; x < canvas.width; ++x) {
      const weight = cells[Math.floor(y / times) * w + Math.floor(x / times)];
      const place = Math.max(-255, Math.min(255, Math.round(255 * palette.scale(weight / top))));
      pixels[y * canvas.width + x] = weight === weight ? packedTable[255 + place] : packed(hatch(x, y));
    }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The largest thumbnail of a grid, made once for what it was last asked for. */
function bitmap(grid, top, palette) {
  const id = [top, palette.name, state.lift, theme()].join('|');
  if (grid.bitmap?.id !== id) grid.bitmap = {id, canvas: thumbnail(grid, top, 2048, palette)};
  return grid.bitmap.canvas;
}

const LARGEST_CELL = 38;  // pixels

/** How a map fits into `space` pixels across, and `tall` down: the room for labels and the size of a cell. */
function mapSize(query, key, space, tall = Infinity) {
  const label = Math.ceil(widest(query.labels, 12, 120)) + 14, head = Math.ceil(widest(key.labels, 12, 100)) + 14;
  const fits = Math.min(
      (space - label - 10) / Math.max(key.count, query.count * 0.6), (tall - head - 10) / Math.max(1, query.count));
  const cell = Math.max(paper.printing ? 0.1 : 1, Math.min(LARGEST_CELL, fits));
  return sized({label, head, cell}, query, key);
}

/** The whole size of a map, in whole pixels, which no browser blurs. */
function sized({label, head, cell}, query, key) {
  const whole = (before, count) => Math.ceil(before + cell * count + 10);
  return {label, head, cell, width: whole(label, key.count), height: whole(head, query.count)};
}

/** What of a map stands still: colours, labels and numbers. */
function drawGrid(pen, grid, queries, keys, box, options) {
  const range = wholeRange(grid);
  drawCells(pen, grid, box, options, range);
  drawQueryLabels(pen, queries, box, options, range);
  drawKeyLabels(pen, keys, box, options, range);
}

/** The colours in a range of a map and, where a cell has `room`, the numbers. */
function drawCells(pen, grid, {label, head, cell}, options, range) {
  const {top, palette = plain, text = shortWeight, room = 26} = options, {rows: [i0, i1], columns: [j0, j1]} = range;
  const all = i1 - i0 === grid.rows && j1 - j0 === grid.columns;
  // Where cells are smaller than a pixel, or all are drawn, the picture that is kept will do.
  if (all || cell < 1)
    pen.image(bitmap(grid, top, palette), label, head, cell * grid.columns, cell * grid.rows);
  else
    pen.image(
        thumbnail(grid, top, 4096, palette, range), label + j0 * cell, head + i0 * cell, (j1 - j0) * cell,
        (i1 - i0) * cell);
  pen.frame(label, head, cell * grid.columns, cell * grid.rows, ink().line);
  if (cell < room) return;
  for (let i = i0; i < i1; ++i)
    grid.each(i, (j, w) => {
      if (j >= j0 && j < j1 && Math.abs(w) >= 0.005 * Math.min(1, top))
        pen.text(
            label + (j + 0.5) * cell, head + (i + 0.5) * cell, text(w),
            {size: 10, align: 'center', color: textOn(palette.color(palette.scale(w / top)))});
    });
}

/** Calls draw(i) for as many of first..end - 1 as have room for a label, the same ones wherever a window stands. */
function eachLabel(first, end, cell, draw) {
  const every = Math.max(1, Math.ceil((labelSize(cell) + 2) / cell));
  for (let i = Math.ceil(first / every) * every; i < end; i += every) draw(i);
}

function drawQueryLabels(pen, tokens, box, {faintQueries = () => false}, {rows: [first, end]}) {
  eachLabel(
      first, end, box.cell,
      i => drawQueryLabel(pen, tokens, box, i, box.head + (i + 0.5) * box.cell, {faint: faintQueries(i)}));
}

function drawKeyLabels(pen, tokens, box, {faintKeys = () => false}, {columns: [first, end]}) {
  eachLabel(
      first, end, box.cell,
      j => drawKeyLabel(pen, tokens, box, j, box.label + (j + 0.5) * box.cell, {faint: faintKeys(j)}));
}

/** .25, \u2212.03, 1.00: as much as a cell has room for. */
function shortWeight(w) { return fixed(w, 2).replace('-', '\u2212').replace(/^(\D?)0/, '$1'); }

const labelSize = cell => Math.max(8, Math.min(12, cell - 2));

/** The label of query i with its middle at y; `looked` at it is bold, on a ground of its own. */
function drawQueryLabel(pen, tokens, {label, cell}, i, y, {faint = false, looked = false} = {}) {
  const size = labelSize(cell), color = faint ? ink().faint : undefined;
  if (looked) pen.rect(0, y - size / 2 - 2, label - 2, size + 4, ink().back);
  pen.text(label - 6, y, tokenText(tokens, i), {size, align: 'right', width: label - 12, bold: looked, color});
}

function drawKeyLabel(pen, tokens, {head, cell}, j, x, {faint = false, looked = false} = {}) {
  const size = labelSize(cell), color = faint ? ink().faint : undefined;
  if (looked) pen.rect(x - size / 2 - 2, 0, size + 4, head - 2, ink().back);
  pen.text(x, head - 6, tokenText(tokens, j), {size, turn: -Math.PI / 2, width: head - 12, bold: looked, color});
}

/** Frames round a row and a column, and their labels in bold. */
function drawLooked(pen, grid, queries, keys, box, {query = null, key = null}) {
  const {label, head, cell} = box;
  if (query !== null) {
    drawQueryLabel(pen, queries, box, query, head + (query + 0.5) * cell, {looked: true});
    pen.frame(label, head + query * cell, cell * grid.columns, cell, ink().strong);
  }
  if (key !== null) {
    drawKeyLabel(pen, keys, box, key, label + (key + 0.5) * cell, {looked: true});
    pen.frame(label + key * cell, head, cell, cell * grid.rows, ink().strong);
  }
}

// ---------------------------------------------------------------------------------------------- the scale

/** A strip of all colours from `from` to 1. */
function scaleCanvas(palette, from) {
  const canvas = make('canvas', {class: 'pixels bar', 'aria-hidden': 'true'});
  canvas.width = 64;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  for (let i = 0; i < 64; ++i) {
    context.fillStyle = css(palette.color(palette.scale(from + (1 - from) * i / 63)));
    context.fillRect(i, 0, 1, 1);
  }
  return canvas;
}

/** {begin, end, from, palette, title} of the scale of weights up to `top`, a number or what it is called. */
function scaleOf(top, palette = plain, title = tr('colorOfWeight')) {
  const end = typeof top === 'string' ? top : number(top);
  return {palette, title, from: palette.signed ? -1 : 0, begin: palette.signed ? `\u2212${end}` : '0', end};
}

function colorBar({begin, end, from, palette, title}) {
  return make('span', {class: 'scale', title}, begin, scaleCanvas(palette, from), end);
}

/** The same in a file, from (x, y). */
function paintColorBar(pen, x, y, {begin, end, from, palette, title}) {
  const before = Math.ceil(widest([begin], 11, 200)) + 6, width = 120;
  pen.text(x, y, begin, {size: 11});
  for (let i = 0; i < 60; ++i)
    pen.rect(x + before + 2 * i, y - 6, 2, 12, css(palette.color(palette.scale(from + (1 - from) * i / 59))));
  pen.frame(x + before, y - 6, width, 12, ink().line);
  pen.text(x + before + width + 6, y, `${end}   ${title}`, {size: 11});
}
