// The mean of the chosen heads as one large map.
const mapDisplay = {
  heading() { return [headsName()]; },

  options(d) {
    const room = 38, text = w => (widest([weightText(w)], 10, room) < room - 2 ? weightText(w) : '');
    const wide = group().shares ? {} : {text, room};  // numbers of any size, where they fit
    return {top: d.mean.largest() || 1, palette: group().palette, faintKeys: j => j === d.hidden, ...wide};
  },

  build(stage) {
    this.place = make('div');
    stage.append(this.place);
  },

  /** The map, as soon as the room for it is known. */
  ready(d) {
    const space = paper.printing ? 560 : Math.max(240, this.place.clientWidth);
    const box = mapSize(d.query, d.key, space, paper.printing ? 780 : Infinity);
    this.map = new MapCanvas(
        d.mean, d.query, d.key, box, this.options(d),
        {id: 'map', 'aria-label': tr('mapLabel', {name: headsName(), queries: d.query.count, keys: d.key.count})}, {
          room: {width: space, height: Math.max(320, innerHeight - 270)},
          place: state.window,
          onmove: () => writeAddress('later')
        });
    const canvas = this.map.element;
    const look = at => {
      const {query, key} = at ?? {query: null, key: null};
      if (state.query === query && state.key === key) return;
      Object.assign(state, {query, key});
      headView.refresh();
    };
    canvas.addEventListener('mousemove', event => {
      if (!state.pinned) look(this.map.cellAt(event));
    });
    canvas.addEventListener('mouseleave', () => {
      if (!state.pinned) look(null);
    });
    canvas.addEventListener('click', event => {
      const at = this.map.cellAt(event);
      const same = state.pinned && at && at.query === state.query && at.key === state.key;
      state.pinned = Boolean(at) && !same;
      look(at);
      headView.refresh();
      writeAddress();
    });
    canvas.addEventListener('keydown', event => {
      const at = this.map.moved(event, state);
      if (!at) return;
      state.pinned = true;
      look(at);
      say(this.map.sentence(at));
      writeAddress('later');
    });
    this.map.showIn(this.place);
  },

  reveal(side, index) { this.map.reveal({[side]: index}); },

  refresh() { this.map?.show(state); },

  paint(pen, d) {
    const box = mapSize(d.query, d.key, Math.max(400, Math.min(2000, 150 + d.key.count * 34)));
    drawGrid(pen, d.mean, d.query, d.key, box, this.options(d));
    drawLooked(pen, d.mean, d.query, d.key, box, state);
    paintColorBar(pen, box.label, box.height + 8, this.scale(d));
    return {width: Math.max(box.width, box.label + 300), height: box.height + 20};
  },

  scale(d) { return scaleOf(d.mean.largest(), group().palette); },
};
