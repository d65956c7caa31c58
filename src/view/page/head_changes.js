// What is done to heads in a page that is alive: every later layer and the output are computed anew, and stand beside
// those of the model as it is.

const HEAD_CHANGES = ['0', '0.5', '2', 'uniform', 'previous', 'own'];  // as heed attend --change writes them

const headChanges = {
  of: new Map(),  // by the name of the attention: a map from the number of a head to what is done to it

  get(g, n) { return this.of.get(g.name)?.get(n) ?? ''; },

  /** `what` is one of HEAD_CHANGES, or '' for the head as learned. */
  set(g, heads, what) {
    const own = this.of.get(g.name) ?? new Map();
    for (const n of heads)
      if (what)
        own.set(n, what);
      else
        own.delete(n);
    if (own.size)
      this.of.set(g.name, own);
    else
      this.of.delete(g.name);
  },

  clear() { this.of.clear(); },

  /** [[the group, the number of the head, what], ...], in the order of the page. */
  all() {
    return groups.filter(g => !g.measure)
        .flatMap(g => [...this.of.get(g.name) ?? []].sort(([a], [b]) => a - b).map(([n, what]) => [g, n, what]));
  },

  /** As the model and the address have them: "Cross:2.1=0,3.4=uniform;Encoder:1.2=own". */
  text() {
    const lists = new Map();
    for (const [g, n, what] of this.all()) {
      const {layer, head} = g.head(n);
      lists.set(g.name, [...lists.get(g.name) ?? [], `${layer + 1}.${head + 1}=${what}`]);
    }
    return [...lists].map(([name, list]) => `${name}:${list.join()}`).join(';');
  },

  /** Takes what text() gives; what is no such list, or of heads that are not there, is left out. */
  parse(text) {
    this.clear();
    for (const part of text.split(';')) {
      const [, name, list] = /^([^:]+):(.+)$/.exec(part) ?? [],
                     g = groups.find(one => one.name === name && !one.measure);
      for (const item of g ? list.split(',') : []) {
        const [, layer, head, what] = /^(\d+)\.(\d+)=(.+)$/.exec(item) ?? [];
        if (layer >= 1 && layer <= g.layers && head >= 1 && head <= g.heads && HEAD_CHANGES.includes(what))
          this.set(g, [(layer - 1) * g.heads + (head - 1)], what);
      }
    }
  },

  /** For a reader: "Cross 2.1: off, Encoder 1.2: itself alone". */
  words() {
    return this.all()
        .map(([g, n, what]) => {
          const {layer, head} = g.head(n);
          return `${g.shownName} ${layer + 1}.${head + 1}: ${tr(`change_${what}`)}`;
        })
        .join(', ');
  },

  /** A choice for the heads that are shown. */
  tool() {
    const g = group();
    if (!data.live || live.asleep || g.measure || g.picture) return null;
    const now = new Set(state.heads.map(n => this.get(g, n))), mixed = now.size > 1;
    const options = [
      ...(mixed ? [['mixed', '\u2026']] : []),
      ...['', ...HEAD_CHANGES].map(what => [what, tr(`change_${what || 'learned'}`)])
    ];
    const tool = choice(
        tr(state.heads.length > 1 ? 'changeHeads' : 'changeHead'), options, mixed ? 'mixed' : [...now][0],
        what => what !== 'mixed' && live.changeHeads(() => this.set(g, state.heads, what)));
    tool.id = 'change-heads';
    tool.title = tr('changeHeadsWhy');
    return tool;
  },

  /** What is changed, below the line where a text is typed, and the way back. */
  line() {
    const words = this.words();
    return words ?
        [
          make('span', {}, tr('changedHeads', {heads: words}), ' '),
          make(
              'button',
              {type: 'button', 'data-value': 'as-learned', onclick: () => live.changeHeads(() => this.clear())},
              tr('asLearned'))
        ] :
        [];
  },
};
