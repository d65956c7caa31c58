// Words of the trade, explained where they stand: on a tap, under the pointer, or when they have the focus.

/** The one explanation that is open, in a box below its word. */
const explanation = {
  close() {
    this.box?.remove();
    this.box = null;
  },

  open(element, name) {
    this.close();
    this.box = make('p', {class: 'explanation', id: 'explanation', role: 'tooltip'}, tr(`word_${name}`));
    document.body.append(this.box);
    const word = element.getBoundingClientRect(), body = document.body.getBoundingClientRect();
    const most = document.documentElement.clientWidth - this.box.offsetWidth - 8;
    this.box.style.setProperty('--x', `${Math.max(8, Math.min(word.left, most)) - body.left}px`);
    this.box.style.setProperty('--y', `${word.bottom - body.top + 4}px`);
  },
};

/** The word `name` of the glossary, as it is called here. */
function term(name, label) {
  const open = event => explanation.open(event.currentTarget, name);
  return make(
      'button', {
        type: 'button',
        class: 'term',
        'data-value': `word-${name}`,
        'aria-describedby': 'explanation',
        onfocus: open,
        onclick: open,
        onmouseenter: open,
        onmouseleave: event => event.currentTarget !== document.activeElement && explanation.close(),
        onblur: () => explanation.close(),
        onkeydown: event => {
          if (event.key !== 'Escape' || !explanation.box) return;
          event.stopPropagation();
          explanation.close();
        },
      },
      label);
}
