// A page that is alive: what is typed goes to a provider of answers, and what it answers takes the place of what the
// page was made with.

const MOST_TYPED = 20000;  // characters; no model of a page takes nearly as many
const TYPING_PAUSE = 300;  // milliseconds without a key: then what stands there is read

/**
   The model in the page itself. A provider has
   - ready: the key of what is said when it is,
   - lacks(): whether the browser cannot do it,
   - load(): a promise that it is ready,
   - run(text, change, onWritten): a promise of {data, blocks}: what page_data() of heed/view.h gives, read as JSON, and
     ArrayBuffers by number. change: headChanges.text(). onWritten(text so far) is called on the way.
   Promises are rejected with an Error whose message says in a line why; the next call may succeed all the same.
 */
class ModelInPage {
  ready = 'liveReady';

  lacks() {
    // A function that makes a vector of zeros where an exception would be caught.
    const probe = [
      0, 97, 115, 109, 1,  0, 0, 0,  1,  4, 1,   96, 0,  0,  3,  2, 1,
      0, 10, 13,  1,   11, 0, 6, 64, 65, 0, 253, 15, 26, 25, 11, 11
    ];
    return typeof WebAssembly === 'undefined' || typeof Worker === 'undefined' ||
        !WebAssembly.validate(new Uint8Array(probe));
  }

  async load() {
    // An address that becomes a script has to be made by the one policy that the page permits.
    this.policy ??= window.trustedTypes?.createPolicy('heed-worker', {createScriptURL: address => address});
    const script =
        new Blob([`${inflated}\n${javascriptOf}\n${foundIn}\n(${answerInWorker})();`], {type: 'text/javascript'});
    const address = URL.createObjectURL(script);
    this.worker = new Worker(this.policy?.createScriptURL(address) ?? address);
    const part = block => ({block, text: packed(block)}), {module, files} = data.live;
    await this.call({what: 'load', module: part(module), files: files.map(([name, block]) => [name, part(block)])});
    URL.revokeObjectURL(address);
  }

  async run(text, change, onWritten) {
    if (!this.worker) await this.load();
    return this.call({what: 'run', text, change, beam: data.live.beam, generate: data.live.generate}, onWritten);
  }

  /** One call after the other. */
  call(message, onWritten = () => {}) {
    return new Promise((resolve, reject) => {
      const fail = error => {
        this.worker.terminate();
        this.worker = null;
        reject(error);
      };
      this.worker.onerror = event => fail(new Error(event.message || tr('liveLacks')));
      this.worker.onmessage = ({data: {answer, error, block, lost, written}}) => {
        if (written !== undefined)
          onWritten(written);
        else if (block !== undefined)
          fail(damaged(block));
        else if (error !== undefined)
          (lost ? fail : reject)(new Error(error));
        else
          resolve(answer);
      };
      this.worker.postMessage(message);
    });
  }
}

/** The model of the server that the page came from: heed serve. */
class ModelOfServer {
  ready = 'liveServed';

  lacks() { return false; }

  async load() {}

  async run(text, change) {
    const {beam, generate} = data.live;
    const asked = {
      method: 'POST',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({text, change, beam, generate})
    };
    const answer = await fetch('attend', asked).catch(() => {
      throw new Error(tr('liveGone'));
    });
    const {error, blocks, ...next} = await answer.json();
    if (error !== undefined) throw new Error(error);
    return {data: next, blocks: await Promise.all(blocks.map(inflated))};
  }
}

const PROVIDERS = {
  module: ModelInPage,
  server: ModelOfServer
};

/** What the page was made of: text null is its own. `change` is headChanges.text(). */
const OWN = {
  text: null,
  change: ''
};
const sameAsked = (a, b) => a.text === b.text && a.change === b.change;

/** The line where a text is typed, and what becomes of it. */
const live = {
  next: null,     // what is read next: {text, change, draft, linked}
  busy: true,     // until the model is awake
  shown: OWN,     // what the page shows
  draft: false,   // whether that was still being typed
  awaited: null,  // what the address has, until it is shown or cannot be
  turns: 0,       // how often the address has led to another text

  /** Once, and again in another language. */
  build() {
    if (!data.live) return;
    const form = document.getElementById('live'), typed = this.input?.value ?? '';
    this.provider ??= new PROVIDERS[data.live.provider]();
    this.input = make('textarea', {
      id: 'typed',
      rows: '1',
      autocomplete: 'off',
      spellcheck: 'false',
      lang: '',
      dir: 'auto',
      placeholder: data.title,
      disabled: this.asleep,
      oninput: event => !event.isComposing && this.later(),
      onkeydown: event => {
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.ask(this.input.value);
      },
      onchange: () => {
        this.draft = false;
      },
    });
    this.input.value = typed;
    this.changed = make('p', {id: 'live-changed'});
    this.line = make('p', {id: 'live-line', role: 'status', 'aria-live': 'polite'});
    this.button = make(
        'button', {type: 'submit', class: 'primary', 'data-value': 'run', disabled: this.asleep},
        tr(`live_${data.live.kind}`));
    form.onsubmit = event => {
      event.preventDefault();
      this.ask(this.input.value);
    };
    form.replaceChildren(
        make('label', {'for': 'typed'}, tr('liveLabel')), this.input, this.button, this.line, this.changed,
        this.about());
    form.hidden = false;
    this.sayChanged();
    this.say(...this.said ?? ['liveWaking']);
  },

  about() {
    const {notice} = data.live;
    return notice && make('details', {}, make('summary', {}, tr('liveAbout')), make('p', {lang: 'en'}, notice));
  },

  /** One line below what is typed. */
  say(key, values = {}) {
    this.said = [key, values];
    this.line.textContent = tr(key, values);
    this.line.classList.toggle('trouble', ['liveFailed', 'liveTooLong', 'liveLacks'].includes(key));
  },

  sayChanged() {
    if (data.compared.length && this.shown.change) data.comparedTitle = headChanges.words();
    this.changed.replaceChildren(...headChanges.line());
  },

  /** `by` changes headChanges; then what is shown, or is about to be, is read anew. */
  changeHeads(by) {
    by();
    this.sayChanged();
    return this.ask((this.next ?? this.reading ?? this.shown).text);
  },

  fail(error) { this.say('liveFailed', {error: error.message || String(error)}); },

  /** Wakes the model up; the page has been painted. */
  async start() {
    if (!data.live) return;
    try {
      this.asleep = this.provider.lacks();
      if (this.asleep) return this.say('liveLacks');
      await this.provider.load();
      performance.mark('alive');
      document.documentElement.dataset.alive = 'true';
      this.say(this.provider.ready);
    } catch (error) {
      this.asleep = true;
      this.fail(error);
    } finally {
      if (this.asleep) this.awaited = null;
      this.busy = false;
      this.input.disabled = this.button.disabled = this.asleep;
    }
    return this.work();
  },

  /** What the page shows, or is about to. */
  asked() { return this.awaited ?? this.shown; },

  /**
   * The address leads to this text, or null, with these changes of heads. What the page was made of is there at once;
   * something else is read, and the address once more when it has been: only then it is known which tokens there are.
   */
  turnTo(text, change) {
    if (!data.live || this.asleep) return;
    headChanges.parse(change ?? '');
    const wanted = {text: text?.trim() ? text : null, change: headChanges.text()};
    this.sayChanged();
    if (sameAsked(wanted, this.asked())) return;
    ++this.turns;
    clearTimeout(this.pause);
    this.next = this.awaited = null;
    this.input.value = wanted.text ?? '';
    if (sameAsked(wanted, OWN)) this.putOwn();
    if (sameAsked(wanted, this.shown)) return this.say(this.provider.ready);
    this.awaited = wanted;
    this.ask(wanted.text, {linked: true});
  },

  later() {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.ask(this.input.value, {draft: true}), TYPING_PAUSE);
  },

  /**
   * Of several texts that come while one is read only the last one is. `draft`: it is still being typed; `linked`: it
   * comes from the address.
   */
  ask(text, {draft = false, linked = false} = {}) {
    clearTimeout(this.pause);
    if (!linked) this.awaited = null;
    this.next = {text, change: headChanges.text(), draft, linked};
    return this.work();
  },

  async work() {
    if (this.busy || this.asleep) return;
    this.busy = true;
    while (this.next !== null) {
      const asked = this.next;
      this.next = null;
      if (asked.text?.length > MOST_TYPED)
        this.say('liveTooLong', {most: MOST_TYPED});
      else if (asked.text?.trim() !== '' && !sameAsked(asked, this.shown))
        await this.read(asked);  // which throws nothing
      else
        this.draft &&= asked.draft;
      if (asked.linked && this.awaited && sameAsked(asked, this.awaited)) this.awaited = null;  // it cannot be shown
    }
    this.busy = false;
  },

  async read(asked) {
    const {text, change: heads, draft, linked} = asked;
    const began = performance.now(), turn = this.turns, wanted = () => turn === this.turns;
    this.reading = asked;
    try {
      let next = data, ms = 0;
      if (sameAsked(asked, OWN)) {
        this.putOwn();
      } else {
        const answer = await this.provider.run(
            text ?? data.live.text, heads, written => wanted() && this.say('liveWriting', {text: written.slice(-200)}));
        if (!wanted()) return;  // Back, meanwhile
        next = answer.data;
        ms = Math.round(performance.now() - began);
        this.own ??= {next: {...data}, groups: [...groups], query: firstState.query};
        const compares = heads !== '' && heads !== this.shown.change;
        this.shown = {text, change: heads};
        this.put({next, groups: groupsOf(next, answer.blocks), query: null});
        if (compares) state.view = 'compare';
      }
      if (linked) {
        this.awaited = null;
        readAddress();
      } else {
        Object.assign(state, {query: null, key: null, pinned: false, cell: null, opened: null, step: 0, window: {}});
        if (state.view === 'compare' && !hasView('compare')) state.view = 'head';
      }
      // While a text is typed Back leads to the one before, not to its beginnings.
      await change({}, {told: linked || (draft && this.draft)});
      this.draft = draft;
      this.say('liveDone', {n: next.steps.length, ms});
    } catch (error) {
      if (wanted()) this.fail(error);
    } finally {
      this.reading = null;
    }
  },

  putOwn() {
    if (sameAsked(this.shown, OWN)) return;
    this.shown = OWN;
    this.put(this.own);
  },

  /** The view stays, and so do the heads: they are those of the same model. `query`: what the story begins with. */
  put({next, groups: itsGroups, query}) {
    stepsView.stop();
    replaceData(next, itsGroups);
    this.sayChanged();
    shown.key = '';
    compareView.shownId = '';
    firstState.query = query;
    frame(false);
  },
};
