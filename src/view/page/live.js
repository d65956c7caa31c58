// A page that is alive: what is typed goes to a provider of answers, and what it answers takes the place of what the
// page was made with.

const MOST_TYPED = 20000;  // characters; no model of a page takes nearly as many
const TYPING_PAUSE = 300;  // milliseconds without a key: then what stands there is read

/**
   The model in the page itself. A provider has
   - ready: the key of what is said when it is,
   - lacks(): whether the browser cannot do it,
   - load(): a promise that it is ready,
   - run(text, onWritten): a promise of {data, blocks}: what page_data() of heed/view.h gives, read as JSON, and
     ArrayBuffers by number. onWritten(text so far) is called on the way.
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

  async run(text, onWritten) {
    if (!this.worker) await this.load();
    return this.call({what: 'run', text, beam: data.live.beam, generate: data.live.generate}, onWritten);
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

  async run(text) {
    const {beam, generate} = data.live;
    const asked = {
      method: 'POST',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({text, beam, generate})
    };
    const {error, blocks, ...next} = await (await fetch('attend', asked)).json();
    if (error !== undefined) throw new Error(error);
    return {data: next, blocks: await Promise.all(blocks.map(inflated))};
  }
}

const PROVIDERS = {
  module: ModelInPage,
  server: ModelOfServer
};

/** The line where a text is typed, and what becomes of it. */
const live = {
  next: null,  // the text that is read next
  busy: true,  // until the model is awake

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
    });
    this.input.value = typed;
    this.line = make('p', {id: 'live-line', role: 'status', 'aria-live': 'polite'});
    this.button = make(
        'button', {type: 'submit', class: 'primary', 'data-value': 'run', disabled: this.asleep},
        tr(`live_${data.live.kind}`));
    form.onsubmit = event => {
      event.preventDefault();
      this.ask(this.input.value);
    };
    form.replaceChildren(
        make('label', {'for': 'typed'}, tr('liveLabel')), this.input, this.button, this.line, this.about());
    form.hidden = false;
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
      this.busy = false;
      this.input.disabled = this.button.disabled = this.asleep;
    }
    return this.work();
  },

  later() {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.ask(this.input.value), TYPING_PAUSE);
  },

  /** Of several texts that come while one is read only the last one is. */
  ask(text) {
    clearTimeout(this.pause);
    this.next = text;
    return this.work();
  },

  async work() {
    if (this.busy || this.asleep) return;
    this.busy = true;
    while (this.next !== null) {
      const text = this.next;
      this.next = null;
      if (text.length > MOST_TYPED)
        this.say('liveTooLong', {most: MOST_TYPED});
      else if (text.trim() !== '' && text !== this.shown)
        await this.read(text);  // which throws nothing
    }
    this.busy = false;
  },

  async read(text) {
    const began = performance.now();
    try {
      const {data: next, blocks} =
          await this.provider.run(text, written => this.say('liveWriting', {text: written.slice(-200)}));
      const ms = Math.round(performance.now() - began);
      await this.show(next, blocks);
      this.shown = text;
      this.say('liveDone', {n: next.steps.length, ms});
    } catch (error) {
      this.fail(error);
    }
  },

  /** The view stays, and so do the heads: they are those of the same model. */
  async show(next, blocks) {
    stepsView.stop();
    replaceData(next, blocks);
    shown.key = '';
    stepsView.topFor = null;
    firstState.query = null;
    frame(false);
    await change({query: null, key: null, pinned: false, cell: null, step: 0}, {told: true});
  },
};
