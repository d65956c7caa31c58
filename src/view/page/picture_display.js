// Weights over the picture that tokens are patches of.

/** How many tokens stand in front of the patches: the class token. */
const inFront = g => g.keys - g.picture.rows * g.picture.columns;

/** The picture as it is, or `faded`, in grey and closer to the background, for weights to lie over. */
function pictureCanvas(g, faded) {
  const {height, width} = g.picture, ground = theme() === 'dark' ? [18, 18, 31] : [255, 255, 255];
  g.canvases ??= {};
  const id = faded ? theme() : 'plain';
  if (g.canvases[id]) return g.canvases[id];
  const canvas = document.createElement('canvas');
  Object.assign(canvas, {width, height});
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  for (let at = 0, to = 0; at < g.pixels.length; at += 3, to += 4) {
    const [red, green, blue] = g.pixels.subarray(at, at + 3);
    const grey = 0.299 * red + 0.587 * green + 0.114 * blue;
    image.data.set(faded ? [...ground.map(c => c + 0.5 * (grey - c)), 255] : [red, green, blue, 255], to);
  }
  context.putImageData(image, 0, 0);
  return g.canvases[id] = canvas;
}

/** The largest weight that a patch has, of a row of weights for all tokens. */
function patchTop(g, weights) { return largestOf([weights.subarray(inFront(g))]); }

/** The place of a patch in a picture of w x h pixels: {x, y, w, h} in whole pixels. */
function patchBox(g, patch, w, h) {
  const {rows, columns} = g.picture, row = Math.floor(patch / columns), column = patch % columns;
  const x = Math.round(column * w / columns), y = Math.round(row * h / rows);
  return {x, y, w: Math.round((column + 1) * w / columns) - x, h: Math.round((row + 1) * h / rows) - y};
}

/** A canvas of the picture, with weights over it where they are given; it has at least `wanted` pixels across. */
function pictureWith(g, weights, top, wanted) {
  const base = pictureCanvas(g, Boolean(weights)), times = Math.max(1, Math.ceil(wanted / base.width));
  const canvas = document.createElement('canvas');
  canvas.width = base.width * times;
  canvas.height = base.height * times;
  const context = canvas.getContext('2d');
  context.imageSmoothingEnabled = base.width >= 64;  // the few pixels of a small picture are shown as they are
  context.drawImage(base, 0, 0, canvas.width, canvas.height);
  const first = inFront(g);
  for (let j = first; weights && j < g.keys; ++j) {
    const {x, y, w, h} = patchBox(g, j - first, canvas.width, canvas.height);
    const t = Math.max(-1, Math.min(1, weights[j] / top));
    if (Number.isNaN(t)) {
      context.globalAlpha = 1;
      for (let at = 0; at < h; ++at) {  // stripes
        context.fillStyle = css(hatch(0, Math.floor(4 * at / Math.max(4, h / 4))));
        context.fillRect(x, y + at, w, 1);
      }
    } else if (t !== 0) {
      context.globalAlpha = 0.8 * Math.sqrt(Math.abs(t));
      context.fillStyle = css(g.palette.color(g.palette.scale(t)));
      context.fillRect(x, y, w, h);
    }
  }
  return canvas;
}

/** Heads in the model view: what the first token, the class token, attends to. `top` has the strongest colour. */
function headOverPicture(g, n, top) { return pictureWith(g, g.grids[n].row(0), top, 0); }
function headTop(g, n) { return patchTop(g, g.grids[n].row(0)); }
function topOfHeads(g) { return g.topOfHeads ??= Math.max(...g.grids.map((_, n) => headTop(g, n))); }

/** The picture beside what a token attends to in it: a way to show heads in the head view. */
const pictureDisplay = {
  heading() { return [headsName()]; },

  /** Whose weights are shown: the token looked at, or else the first. */
  token() { return state.query ?? 0; },

  build(stage, d) {
    const g = group(), first = inFront(g), {width, height, rows, columns} = g.picture;
    const view = document.getElementById('view').clientWidth || 800,
          space = innerWidth > 1000 ? view - 350 - Math.max(220, 40 + 24 * g.heads) :
                                      view;  // beside the heads and the details
    const across = Math.max(180, Math.min(440, space >= 400 ? (space - 24) / 2 : space));
    const size = {w: Math.round(across), h: Math.round(across * height / width)};
    const picture = makeCanvas(
        size.w, size.h,
        {class: 'patches', id: 'picture', tabIndex: 0, role: 'img', 'aria-label': tr('pictureLabel', {rows, columns})});
    const patchAt = event => {
      const box = picture.getBoundingClientRect(),
            column = Math.floor((event.clientX - box.left) / box.width * columns),
            row = Math.floor((event.clientY - box.top) / box.height * rows);
      return row >= 0 && row < rows && column >= 0 && column < columns ? first + row * columns + column : null;
    };
    const look = query => {
      if (state.query === query) return;
      Object.assign(state, {query, key: null});
      headView.refresh();
    };
    picture.addEventListener('mousemove', event => {
      if (!state.pinned) look(patchAt(event));
    });
    picture.addEventListener('mouseleave', () => {
      if (!state.pinned) look(null);
    });
    picture.addEventListener('click', event => {
      const at = patchAt(event);
      if (at !== null) headView.pin('query', at);
    });
    picture.addEventListener('keydown', event => {
      const move = {ArrowDown: columns, ArrowUp: -columns, ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!move) return;
      event.preventDefault();
      const at = (state.query ?? 0) - first, next = at < 0 ? 0 : at + move;
      const leaves = Math.abs(move) === 1 && at >= 0 && Math.floor(next / columns) !== Math.floor(at / columns);
      if (next < 0 || next >= rows * columns || leaves) return;
      state.pinned = true;
      look(first + next);
      const weights = derived().mean.row(first + next), most = weights.indexOf(Math.max(...weights));
      say(
          tr('pictureSaid',
             {patch: d.query.labels[first + next], key: d.key.labels[most], weight: number(weights[most])}));
    });
    this.front = Array.from(
        {length: first},
        (_, i) => make(
            'button', {type: 'button', 'data-token': String(i), ...headView.listeners('query', i)},
            make('bdi', {}, d.query.labels[i])));
    this.picture = {canvas: picture, ...size};
    this.heads = [null, ...(d.grids.length > 1 ? d.grids.slice(0, 24).keys() : [])].map(
        n => this.map(g, d, n, n === null ? size : {w: 150, h: Math.round(150 * height / width)}));
    const [whole, ...each] = this.heads;
    this.bar = make('p', {class: 'faint'});
    stage.append(make(
        'div', {class: 'pictures'},
        make('figure', {}, make('figcaption', {}, tr('whoLooks'), first > 0 ? tr('or') : '', ...this.front), picture),
        make('figure', {}, whole.caption, whole.canvas, this.bar),
        ...each.map(({caption, canvas}) => make('figure', {}, caption, canvas))));
  },

  /** A canvas for the n-th chosen head, or the mean of all. */
  map(g, d, n, size) {
    const canvas = makeCanvas(size.w, size.h, {class: 'patches', role: 'img'});
    const caption = make('figcaption', {}, n === null ? '' : g.headName(state.heads[n]));
    if (n === null)
      canvas.addEventListener('mousemove', event => {
        const {rows, columns} = g.picture, box = canvas.getBoundingClientRect();
        const column = Math.min(columns - 1, Math.floor((event.clientX - box.left) / box.width * columns)),
              row = Math.min(rows - 1, Math.floor((event.clientY - box.top) / box.height * rows));
        const j = inFront(g) + Math.max(0, row) * columns + Math.max(0, column);
        canvas.title = `${d.key.labels[j]}: ${number(d.mean.at(this.token(), j))}`;
      });
    return {canvas, caption, n, ...size};
  },

  refresh(d) {
    const g = group(), i = this.token(), patch = i - inFront(g);
    const rows = d.grids.map(grid => grid.row(i)), mean = d.mean.row(i);
    const top = Math.max(...rows.map(row => patchTop(g, row))), meanTop = patchTop(g, mean);
    const paint = ({canvas, w, h}, image, framed) => {
      const pen = new CanvasPen(sizeCanvas(canvas, w, h));
      pen.image(image, 0, 0, w, h);
      if (framed) this.frame(pen, g, patch, w, h);
    };
    this.picture.image ??= pictureWith(g, null, 1, 512);
    paint(this.picture, this.picture.image, patch >= 0);
    for (const map of this.heads)
      paint(map, map.n === null ? pictureWith(g, mean, meanTop, 512) : pictureWith(g, rows[map.n], top, 150), false);
    this.front.forEach((button, n) => button.setAttribute('aria-pressed', String(n === i)));
    const who = d.query.labels[i];
    this.heads[0].caption.replaceChildren(
        ...trParts('tokenLooksAt', {token: make('bdi', {}, who), heads: headsName()}));
    this.heads[0].canvas.setAttribute('aria-label', tr('looksInPicture', {token: who, heads: headsName()}));
    this.bar.replaceChildren(
        colorBar(scaleOf(meanTop, g.palette)),
        ...Array.from(
            {length: inFront(g)}, (_, j) => tr('onToken', {token: d.key.labels[j], weight: number(mean[j])})));
  },

  frame(pen, g, patch, w, h) {
    const box = patchBox(g, patch, w, h);
    pen.frame(box.x, box.y, box.w, box.h, '#fff', 4);
    pen.frame(box.x, box.y, box.w, box.h, '#000', 2);
  },

  /** The picture and the mean of the chosen heads. */
  paint(pen, d) {
    const g = group(), i = this.token(), mean = d.mean.row(i), w = 320, h = w * g.picture.height / g.picture.width,
          y = 18, top = patchTop(g, mean);
    pen.text(0, 2, tr('fileLooksAt', {token: d.query.labels[i]}), {size: 12, width: 2 * w});
    pen.image(pictureWith(g, null, 1, 640), 0, y, w, h);
    if (i >= inFront(g)) this.frame(new ShiftedPen(pen, 0, y), g, i - inFront(g), w, h);
    pen.image(pictureWith(g, mean, top, 640), w + 20, y, w, h);
    paintColorBar(pen, w + 20, y + h + 16, scaleOf(top, g.palette));
    return {width: 2 * w + 20, height: y + h + 28};
  },
};
