// A map that can be pointed at. A small one stands there whole; over a large one the reader moves a window, and zooms.
const SMALL_CELL = 7;      // pixels of a cell below which a map is looked at through a window
const READABLE_CELL = 14;  // from which every token has its label
const ZOOM_STEP = 1.5;
const CORNER = 72;  // pixels beside and above the map of the small one, at least
const KEPT = 14;    // pixels of a row or column that is kept at the edge of the window, at least

class MapCanvas {
  /**
   * `box` of mapSize, `options` of drawGrid, `properties` of the canvas, `room` of a window: {width, height}. `place`
   * is where the window stands: {cell, query, key}, the size of a cell and the first row and column; {} is the whole
   * map. It outlives the map; onmove() is called when the reader has changed it.
   */
  constructor(grid, queries, keys, box, options, properties, {room, place = {}, onmove = () => {}}) {
    Object.assign(this, {grid, queries, keys, options, room, place, onmove});
    this.box = {...box};
    this.at = {};
    this.element = make('canvas', {class: 'bigmap', tabIndex: 0, role: 'img', ...properties});
    this.still = document.createElement('canvas');
    this.windowed = !paper.printing && box.cell < SMALL_CELL;
  }

  /** Puts the map into an element of the page. */
  showIn(parent) {
    const {box, place} = this;
    if (this.windowed) {
      parent.replaceChildren(this.tools(), make('div', {class: 'mapframe'}, this.window(), this.minimap()));
      return this.setCell(place.cell ?? this.least, place.query ?? 0, place.key ?? 0);
    }
    parent.replaceChildren(make('div', {class: 'scroll'}, this.element));
    this.size = {width: box.width, height: box.height};
    sizeCanvas(this.element, box.width, box.height);
    const pen = new CanvasPen(sizeCanvas(this.still, box.width, box.height));
    drawGrid(pen, this.grid, this.queries, this.keys, box, this.options);
    this.show({});
  }

  /** `at`: {query, key} of what is looked at, of which each may be null. What stands still is not drawn again. */
  show(at) {
    this.at = at;
    const {width, height} = this.size, context = this.element.getContext('2d'), pen = new CanvasPen(context);
    context.clearRect(0, 0, width, height);
    context.drawImage(this.still, 0, 0, width, height);
    if (this.windowed)
      this.drawLooked(pen);
    else
      drawLooked(pen, this.grid, this.queries, this.keys, this.box, at);
  }

  /** The cell under the pointer, or the row or column whose label is: {query, key}, or null. */
  cellAt(event) {
    if (this.dragging) return null;
    const {label, head, cell} = this.box, {x, y} = this.pointOf(event), from = this.offset();
    const find = (at, before, offset, kept) =>
        (kept && !kept.there && at >= kept.from && at < kept.to ?
             kept.index :
             Math.floor((at - before + (at < before ? 0 : offset)) / cell));
    const i = find(y, head, from.y, this.kept?.query), j = find(x, label, from.x, this.kept?.key);
    if (i >= this.queries.count || j >= this.keys.count || (i < 0 && j < 0)) return null;
    return {query: i < 0 ? null : i, key: j < 0 ? null : j};
  }

  /** The cell that an arrow key leads to from `at`, or null for another key. */
  moved(event, at) {
    const move = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1]}[event.key];
    if (!move) return null;
    event.preventDefault();
    const next = (value, by, count) => Math.max(0, Math.min(count - 1, (value ?? (by ? -1 : 0)) + by));
    const to = {query: next(at.query, move[0], this.queries.count), key: next(at.key, move[1], this.keys.count)};
    if (this.windowed) this.bring(to);
    return to;
  }

  /** Brings a row or a column into sight, large enough to be read. */
  reveal({query = null, key = null}) {
    if (this.windowed) {
      if (this.box.cell < READABLE_CELL) this.zoom(READABLE_CELL / this.box.cell);
      this.centre({query, key});
      return this.element.scrollIntoView({block: 'nearest'});
    }
    const {label, head, cell} = this.box, area = this.element.getBoundingClientRect();
    const scroller = this.element.parentElement;
    if (key !== null) scroller.scrollLeft = label + key * cell - scroller.clientWidth / 2;
    if (query !== null) scrollBy({top: area.top + head + query * cell - innerHeight / 2});
  }

  /** What a cell says. */
  sentence({query, key}) {
    return tr('attendsTo', {
      query: this.queries.labels[query].slice(0, 80),
      key: this.keys.labels[key].slice(0, 80),
      weight: weightText(this.grid.at(query, key))
    });
  }

  pointOf(event) {
    const area = this.element.getBoundingClientRect();
    const times = this.size.width / (area.width || this.size.width);  // on a narrow screen a map may be shown smaller
    return {x: (event.clientX - area.left) * times, y: (event.clientY - area.top) * times};
  }

  // -------------------------------------------------------------------------------------------- the window

  window() {
    this.box.label = Math.max(CORNER, this.box.label);
    this.box.head = Math.max(CORNER, this.box.head);
    const {box: {label, head}, room} = this, bar = 16;
    const width = Math.min(room.width, label + LARGEST_CELL * this.keys.count + 10 + bar),
          height = Math.min(room.height, head + LARGEST_CELL * this.queries.count + 10 + bar);
    // So the whole map is in sight, inside of the border.
    this.least = Math.min((width - label - 13) / this.keys.count, (height - head - 13) / this.queries.count);
    this.space = make('div', {class: 'mapspace'}, this.element);
    this.scroller =
        make('div', {class: 'mapwindow', vars: {'--wide': `${width}px`, '--tall': `${height}px`}}, this.space);
    this.scroller.addEventListener('scroll', () => {
      if (!this.scroller.isConnected) return;
      this.drawWindow();
      this.keepPlace();
    }, {passive: true});
    this.scroller.addEventListener('wheel', event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), this.pointOf(event));
    }, {passive: false});
    this.element.addEventListener('pointerdown', event => this.drag(event));
    this.element.addEventListener('keydown', event => {
      const factor = {'+': ZOOM_STEP, '-': 1 / ZOOM_STEP, '0': 0}[event.key];
      if (factor === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.zoom(factor);
    });
    return this.scroller;
  }

  tools() {
    const button = (name, text, label, factor) => make(
        'button',
        {type: 'button', 'data-value': name, title: label, 'aria-label': label, onclick: () => this.zoom(factor)},
        text);
    this.zoomOut = button('zoom-out', '\u2212', tr('zoomOut'), 1 / ZOOM_STEP);
    this.zoomIn = button('zoom-in', '+', tr('zoomIn'), ZOOM_STEP);
    this.zoomWhole = button('zoom-whole', tr('zoomWhole'), tr('zoomWhole'), 0);
    return make(
        'div', {class: 'maptools'},
        make(
            'span', {class: 'segments', role: 'group', 'aria-label': tr('zoom')}, this.zoomOut, this.zoomIn,
            this.zoomWhole),
        make('span', {class: 'hint'}, tr('zoomHint')));
  }

  minimap() {
    this.mini = make('canvas', {class: 'minimap', role: 'img', 'aria-label': tr('miniMap')});
    this.overview = thumbnail(this.grid, this.options.top, 128, this.options.palette);
    const go = event => {
      const area = this.mini.getBoundingClientRect();
      this.centre({
        query: (event.clientY - area.top) / area.height * this.queries.count,
        key: (event.clientX - area.left) / area.width * this.keys.count
      });
    };
    this.mini.addEventListener('pointerdown', event => {
      this.mini.setPointerCapture(event.pointerId);
      go(event);
    });
    this.mini.addEventListener('pointermove', event => event.buttons && go(event));
    return this.mini;
  }

  offset() { return this.windowed ? {x: this.scroller.scrollLeft, y: this.scroller.scrollTop} : {x: 0, y: 0}; }

  /** Gives cells a size, and the window the row and the column that it begins with. */
  setCell(cell, query, key) {
    this.box.cell = Math.max(this.least, Math.min(LARGEST_CELL, cell));
    const {width, height} = sized(this.box, this.queries, this.keys);
    this.space.style.width = `${width}px`;
    this.space.style.height = `${height}px`;
    this.size = {width: this.scroller.clientWidth, height: this.scroller.clientHeight};  // without scroll bars
    for (const canvas of [this.element, this.still]) sizeCanvas(canvas, this.size.width, this.size.height);
    this.scroller.scrollTo(key * this.box.cell, query * this.box.cell);
    // Not disabled: one of them may have the focus.
    for (const button of [this.zoomOut, this.zoomWhole])
      button.setAttribute('aria-disabled', String(this.box.cell <= this.least));
    this.zoomIn.setAttribute('aria-disabled', String(this.box.cell >= LARGEST_CELL));
    this.drawWindow();
  }

  /** `factor` 0: the whole map. What is at `point` stays where it is. */
  zoom(factor, point = this.middle()) {
    const {label, head, cell} = this.box, {x, y} = this.offset();
    const to = Math.max(this.least, Math.min(LARGEST_CELL, cell * factor));
    const first = (from, at) => (from + at) / cell - at / to;
    this.setCell(to, first(y, point.y - head), first(x, point.x - label));
    this.keepPlace();
  }

  /** The place on the canvas of what is looked at or, where that is out of sight, of the middle of the window. */
  middle() {
    const {box: {label, head, cell}, at: {query, key}, size: {width, height}} = this, {x, y} = this.offset();
    const place = (index, before, from, end) => {
      const at = before + ((index ?? -1) + 0.5) * cell - from;
      return at >= before && at <= end ? at : (before + end) / 2;
    };
    return {x: place(key, label, x, width), y: place(query, head, y, height)};
  }

  keepPlace() {
    const {cell} = this.box, {x, y} = this.offset(), whole = cell <= this.least;
    Object.assign(this.place, {cell: whole ? undefined : cell, query: y / cell, key: x / cell});
    this.onmove();
  }

  /** Scrolls so that a row, a column or both stand in the middle. */
  centre({query = null, key = null}) {
    const {box: {label, head, cell}, size: {width, height}, scroller} = this;
    if (query !== null) scroller.scrollTop = (query + 0.5) * cell - (height - head) / 2;
    if (key !== null) scroller.scrollLeft = (key + 0.5) * cell - (width - label) / 2;
  }

  /** Scrolls as little as shows a cell. */
  bring({query, key}) {
    const {box: {label, head, cell}, size: {width, height}} = this, {x, y} = this.offset();
    const shown = (index, from, room) => Math.max((index + 1) * cell - room, Math.min(index * cell, from));
    this.scroller.scrollTo(shown(key, x, width - label), shown(query, y, height - head));
  }

  /** A mouse takes the map along; a finger scrolls it as it scrolls everything. */
  drag(down) {
    if (down.pointerType === 'touch' || down.button !== 0) return;
    const from = this.offset(), over = new AbortController();
    const on = (name, listener) => this.element.addEventListener(name, listener, {signal: over.signal, capture: true});
    const end = () => {
      over.abort();
      this.dragging = false;
    };
    this.element.setPointerCapture(down.pointerId);
    on('pointermove', event => {
      const x = event.clientX - down.clientX, y = event.clientY - down.clientY;
      this.dragging ||= Math.hypot(x, y) > 4;
      if (this.dragging) this.scroller.scrollTo(from.x - x, from.y - y);
    });
    on('pointercancel', end);
    on('pointerup', () => setTimeout(end));  // after the click, which chooses no cell when the map was dragged
    on('click', event => this.dragging && event.stopImmediatePropagation());
  }

  /** The cells and labels in the window. */
  drawWindow() {
    const {box, grid, options, size: {width, height}} = this, {label, head, cell} = box, {x, y} = this.offset();
    const range = this.range = {
      rows: [Math.floor(y / cell), Math.min(grid.rows, Math.ceil((y + height - head) / cell))],
      columns: [Math.floor(x / cell), Math.min(grid.columns, Math.ceil((x + width - label) / cell))]
    };
    const context = this.still.getContext('2d'), pen = new CanvasPen(context);
    context.clearRect(0, 0, width, height);
    pen.within(
        label - 1, head - 1, width, height, () => drawCells(new ShiftedPen(pen, -x, -y), grid, box, options, range));
    pen.within(
        0, head, label, height, () => drawQueryLabels(new ShiftedPen(pen, 0, -y), this.queries, box, options, range));
    pen.within(label, 0, width, head, () => drawKeyLabels(new ShiftedPen(pen, -x, 0), this.keys, box, options, range));
    this.show(this.at);
    this.drawMini();
  }

  /** Where row or column `index` is drawn between `before` and `end`: in its place, or kept at the edge. */
  edgeOf(index, before, from, end) {
    if (index === null) return null;
    const {cell} = this.box, begin = before + index * cell - from, thick = Math.max(cell, KEPT);
    if (begin >= before - cell / 2 && begin <= end - cell / 2)
      return {index, from: begin, to: begin + cell, there: true};
    return begin < before ? {index, from: before, to: before + thick} : {index, from: end - thick, to: end};
  }

  /** The row and the column looked at; out of sight they are kept at the edge of the window. */
  drawLooked(pen) {
    const {box, grid, options: {top, palette}, at: {query = null, key = null}} = this, {label, head, cell} = box;
    const {x, y} = this.offset(), {rows: [i0, i1], columns: [j0, j1]} = this.range;
    const right = Math.min(this.size.width, label + cell * grid.columns - x),
          bottom = Math.min(this.size.height, head + cell * grid.rows - y);
    const row = this.edgeOf(query, head, y, bottom), column = this.edgeOf(key, label, x, right);
    this.kept = {query: row, key: column};
    pen.within(label, 0, right, bottom, () => {
      if (row && !row.there)
        pen.image(
            thumbnail(grid, top, 4096, palette, {rows: [query, query + 1], columns: [j0, j1]}), label + j0 * cell - x,
            row.from, (j1 - j0) * cell, row.to - row.from);
      if (row) pen.frame(label, row.from, right - label, row.to - row.from, ink().strong, row.there ? 1 : 2);
      if (column) drawKeyLabel(pen, this.keys, box, key, (column.from + column.to) / 2, {looked: true});
    });
    pen.within(0, head, right, bottom, () => {
      if (column && !column.there)
        pen.image(
            thumbnail(grid, top, 4096, palette, {rows: [i0, i1], columns: [key, key + 1]}), column.from,
            head + i0 * cell - y, column.to - column.from, (i1 - i0) * cell);
      if (column)
        pen.frame(column.from, head, column.to - column.from, bottom - head, ink().strong, column.there ? 1 : 2);
      if (row) drawQueryLabel(pen, this.queries, box, query, (row.from + row.to) / 2, {looked: true});
    });
  }

  /** The whole map, and where the window stands. */
  drawMini() {
    const {box: {label, head}, grid: {rows, columns}, range: {rows: [i0, i1], columns: [j0, j1]}} = this;
    const times = Math.min((label - 10) / columns, (head - 10) / rows);
    const w = Math.max(6, columns * times), h = Math.max(6, rows * times);
    const pen = new CanvasPen(sizeCanvas(this.mini, w, h)),
          part = (from, to, count, length) => [from / count * length, Math.max(3, (to - from) / count * length)];
    const [left, wide] = part(j0, j1, columns, w), [high, tall] = part(i0, i1, rows, h);
    pen.image(this.overview, 0, 0, w, h);
    pen.frame(left, high, wide, tall, ink().back, 4);
    pen.frame(left, high, wide, tall, ink().strong, 2);
  }
}
